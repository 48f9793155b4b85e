package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// lookEvery is the time between two looks at the configuration file.
const lookEvery = 5 * time.Second

// configFile is the file that a daemon was started with.
type configFile struct {
	// path is the file; "" is none, and there is nothing to reload.
	path string
	// content is what was read at the start, and loaded what it said, before the
	// command line had its say.
	content []byte
	loaded  config.Config
	// hangups asks for a reload each time; nil never does.
	hangups <-chan os.Signal
	// every is the time between two looks at the file.
	every time.Duration
}

// The outcomes of a reload.
const (
	reloadApplied   = "applied"
	reloadUnchanged = "unchanged"
	reloadRefused   = "refused"
)

// reloader takes over what changes in the configuration file while the daemon
// runs: hosts, images, sizes and placements. A file that cannot be taken over
// changes nothing, and is spoken of once.
type reloader struct {
	file  configFile
	fleet *fleet
	offer func(instance.Catalog)
	log   *slog.Logger

	// current is what was taken over last; seen is the content that was judged last.
	current config.Config
	seen    [sha256.Size]byte

	reloads  *prometheus.CounterVec
	good     prometheus.Gauge
	goodTime prometheus.Gauge
}

// newReloader makes the reloader of a daemon that runs with file.
func newReloader(file configFile, hosts *fleet, offer func(instance.Catalog), log *slog.Logger, reg prometheus.Registerer) *reloader {
	r := &reloader{
		file: file, fleet: hosts, offer: offer, log: log,
		current: file.loaded, seen: sha256.Sum256(file.content),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvm2d_config_reloads_total",
			Help: "Reloads of the configuration by outcome: applied, unchanged, refused.",
		}, []string{"outcome"}),
		good: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kvm2d_config_last_reload_successful",
			Help: "Whether the configuration file, as it was last read, is in force.",
		}),
		goodTime: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kvm2d_config_last_reload_success_timestamp_seconds",
			Help: "When the configuration was last read and found good.",
		}),
	}
	for _, outcome := range []string{reloadApplied, reloadUnchanged, reloadRefused} {
		r.reloads.WithLabelValues(outcome)
	}
	r.markGood()
	reg.MustRegister(r.reloads, r.good, r.goodTime)
	return r
}

// start reloads on every hangup and after every change of the file, until the
// clean-up that it registers.
func (r *reloader) start(ctx context.Context, life *lifecycle) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { r.loop(ctx) })
	life.onStop("configuration reload", func(context.Context) error {
		cancel()
		wg.Wait()
		return nil
	})
}

func (r *reloader) loop(ctx context.Context) {
	var looks <-chan time.Time
	if r.file.path != "" {
		tick := time.NewTicker(r.file.every)
		defer tick.Stop()
		looks = tick.C
	}
	// Who writes the file may not be done: a change counts once two looks agree.
	pending := r.seen
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.file.hangups:
			r.hangup(ctx)
			pending = r.seen
		case <-looks:
			content, err := config.Read(r.file.path)
			sum := sumOf(content, err)
			if sum == pending && sum != r.seen {
				r.reload(ctx, "change", content, err)
			}
			pending = sum
		}
	}
}

// sumOf stands for what a look at the file found, an error too.
func sumOf(content []byte, err error) [sha256.Size]byte {
	if err != nil {
		content = []byte("\x00" + err.Error())
	}
	return sha256.Sum256(content)
}

// hangup does what SIGHUP asks for.
func (r *reloader) hangup(ctx context.Context) {
	if r.file.path == "" {
		r.log.InfoContext(ctx, "nothing to reload: there is no configuration file")
		return
	}
	content, err := config.Read(r.file.path)
	r.reload(ctx, "signal", content, err)
}

// reload takes over content, or says why not; trigger is who asked for it.
func (r *reloader) reload(ctx context.Context, trigger string, content []byte, err error) {
	r.seen = sumOf(content, err)
	log := r.log.With(slog.String("file", r.file.path), slog.String("trigger", trigger))
	var outcome string
	if err == nil {
		err = instance.Guard(func() (err error) {
			outcome, err = r.take(ctx, log, content)
			return err
		})
	}
	if err != nil {
		outcome = reloadRefused
		r.good.Set(0)
		attrs := []any{slog.String("error", oneLine(err))}
		if stack, ok := instance.PanicStack(err); ok {
			attrs = append(attrs, slog.String("stack", stack))
		}
		log.ErrorContext(ctx, "configuration not reloaded, the old one stays in force", attrs...)
	} else {
		r.markGood()
	}
	r.reloads.WithLabelValues(outcome).Inc()
}

func (r *reloader) markGood() {
	r.good.Set(1)
	r.goodTime.SetToCurrentTime()
}

// take puts content into force where it differs.
func (r *reloader) take(ctx context.Context, log *slog.Logger, content []byte) (outcome string, err error) {
	next, warnings, err := config.Parse(r.file.path, content)
	if err != nil {
		return "", err
	}
	if err := missingHosts(r.current.KVM2.Hosts, next.KVM2.Hosts); err != nil {
		return "", err
	}
	changed, waiting := r.differences(next)
	if len(changed) > 0 {
		if err := r.fleet.apply(next.KVM2.Hosts); err != nil {
			return "", err
		}
		r.offer(catalogOf(next.KVM2))
		logWarnings(ctx, log, append(warnings, next.CheckFiles(fileChecks)...))
	}
	r.current = *next
	level := slog.LevelInfo
	attrs := []slog.Attr{slog.Any("changed", changed)}
	if len(waiting) > 0 {
		level = slog.LevelWarn
		attrs = append(attrs, slog.Any("needs_restart", waiting))
	}
	if len(changed) == 0 {
		log.LogAttrs(ctx, level, "configuration reloaded, there was nothing to take over", attrs...)
		return reloadUnchanged, nil
	}
	log.LogAttrs(ctx, level, "configuration reloaded", attrs...)
	return reloadApplied, nil
}

// differences names the keys that change now, and those that wait for a restart:
// in these the daemon goes by what it was started with.
func (r *reloader) differences(next *config.Config) (changed, waiting []string) {
	for _, path := range config.Diff(&r.current, next) {
		if config.Live(path) {
			changed = append(changed, path)
		}
	}
	for _, path := range config.Diff(&r.file.loaded, next) {
		if !config.Live(path) {
			waiting = append(waiting, path)
		}
	}
	return changed, waiting
}

// missingHosts refuses a configuration without a host that there was: a delete of
// its instances would succeed and remove nothing.
func missingHosts(before, after []config.Host) error {
	names := make(map[string]bool, len(after))
	for _, h := range after {
		names[h.Name] = true
	}
	var gone []string
	for _, h := range before {
		if !names[h.Name] {
			gone = append(gone, h.Name)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return fmt.Errorf("hosts removed or renamed: %s: their instances would be forgotten; to remove a host, restart", strings.Join(gone, ", "))
}

// oneLine puts every fault of a file on one line of the log.
func oneLine(err error) string {
	if faults, ok := errors.AsType[*config.FaultsError](err); ok {
		texts := make([]string, len(faults.Faults))
		for i, f := range faults.Faults {
			texts[i] = f.String()
		}
		return strings.Join(texts, "; ")
	}
	return err.Error()
}

// logWarnings writes a line for each thing that an operator should know of a
// configuration that is in force.
func logWarnings(ctx context.Context, log *slog.Logger, warnings []config.Fault) {
	for _, w := range warnings {
		log.WarnContext(ctx, "configuration", "key", w.Path, "line", w.Line, "warning", w.Text)
	}
}
