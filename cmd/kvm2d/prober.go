package main

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// probed is what a prober looks at: the service.
type probed interface {
	Check(ctx context.Context) instance.Report
	List(ctx context.Context, f instance.Filter) (instance.Page, error)
	Images(ctx context.Context, host string) ([]instance.ImageStatus, error)
}

// snapshot is what one look saw. Its parts were asked for one after the other.
type snapshot struct {
	// At is when the look began; zero before the first one.
	At     time.Time
	Report instance.Report
	Page   instance.Page
	Images []instance.ImageStatus
}

// prober looks at every host from time to time, for the metrics and for the
// page for people, neither of which ever makes kvm2d dial by itself.
type prober struct {
	target   probed
	interval time.Duration
	log      *slog.Logger

	mu   sync.Mutex
	last snapshot
}

func newProber(target probed, interval time.Duration, log *slog.Logger, reg prometheus.Registerer) *prober {
	p := &prober{target: target, interval: interval, log: log}
	reg.MustRegister(newProbeMetrics(p.Last))
	return p
}

// start looks every interval, the first time one interval from now, until the
// clean-up that it registers.
func (p *prober) start(ctx context.Context, life *lifecycle) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { p.loop(ctx) })
	life.onStop("prober", func(context.Context) error {
		cancel()
		wg.Wait()
		return nil
	})
}

func (p *prober) loop(ctx context.Context) {
	tick := time.NewTicker(p.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.lookSafely(ctx)
		}
	}
}

// lookSafely is look, whose panic is a line of the log and costs that look.
func (p *prober) lookSafely(ctx context.Context) {
	err := instance.Guard(func() error {
		p.look(ctx)
		return nil
	})
	if stack, ok := instance.PanicStack(err); ok {
		p.log.ErrorContext(ctx, "probe panicked", "error", err, "stack", stack)
	}
}

// look asks once and shows the outcome, unless ctx ended meanwhile.
func (p *prober) look(ctx context.Context) {
	seen := snapshot{At: time.Now(), Report: p.target.Check(ctx)}
	var err error
	if seen.Page, err = p.target.List(ctx, instance.Filter{Partial: true}); err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "probe: instances are not known", "reason", instance.ReasonOf(err), "error", err)
	}
	seen.Images = p.images(ctx, seen)
	if ctx.Err() != nil {
		return
	}
	p.logChanges(ctx, p.Last().Report, seen.Report)
	p.mu.Lock()
	p.last = seen
	p.mu.Unlock()
}

// images reads those of each host that could be asked for its instances: one
// that is down must not hide what the others have, nor be waited for again.
func (p *prober) images(ctx context.Context, seen snapshot) []instance.ImageStatus {
	var rows []instance.ImageStatus
	for _, h := range seen.Report.Hosts {
		if unreachable(seen.Page, h.Host) {
			continue
		}
		of, err := p.target.Images(ctx, h.Host)
		if err != nil && ctx.Err() == nil {
			p.log.DebugContext(ctx, "probe: images are not known", "host", h.Host, "reason", instance.ReasonOf(err), "error", err)
		}
		rows = append(rows, of...)
	}
	return rows
}

func unreachable(p instance.Page, host string) bool {
	return slices.ContainsFunc(p.Unreachable, func(u instance.UnreachableHost) bool { return u.Host == host })
}

// Last returns what the last look saw.
func (p *prober) Last() snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// logChanges writes a line for every host whose reason is another than before.
func (p *prober) logChanges(ctx context.Context, before, now instance.Report) {
	was := make(map[string]instance.Reason, len(before.Hosts))
	for _, h := range before.Hosts {
		was[h.Host] = h.Reason
	}
	for _, h := range now.Hosts {
		switch old, seen := was[h.Host]; {
		case old == h.Reason || (!seen && h.Ready):
		case h.Ready:
			p.log.InfoContext(ctx, "host is ready", "host", h.Host, "was", old)
		default:
			p.log.WarnContext(ctx, "host is not ready", "host", h.Host, "reason", h.Reason, "was", old, "message", h.Message)
		}
	}
}
