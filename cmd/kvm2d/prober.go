package main

import (
	"context"
	"log/slog"
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

	ready     *prometheus.GaugeVec
	capacity  *prometheus.GaugeVec
	available *prometheus.GaugeVec
	instances *prometheus.GaugeVec
	at        prometheus.Gauge

	mu   sync.Mutex
	last snapshot
}

func newProber(target probed, interval time.Duration, log *slog.Logger, reg prometheus.Registerer) *prober {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	p := &prober{
		target: target, interval: interval, log: log,
		ready:     gauge("kvm2d_host_ready", "Whether the host can take instances; the reason is that of the last look.", "host", "reason"),
		capacity:  gauge("kvm2d_pool_capacity_bytes", "Size of the host's storage pool.", "host", "pool"),
		available: gauge("kvm2d_pool_available_bytes", "Free space in the host's storage pool.", "host", "pool"),
		instances: gauge("kvm2d_instances", "Instances of ours on the host by state.", "host", "state"),
		at: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kvm2d_probe_timestamp_seconds", Help: "When the hosts were last looked at; 0 before the first look.",
		}),
	}
	reg.MustRegister(p.ready, p.capacity, p.available, p.instances, p.at)
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
			p.look(ctx)
		}
	}
}

// look asks once and shows the outcome, unless ctx ended meanwhile.
func (p *prober) look(ctx context.Context) {
	seen := snapshot{At: time.Now(), Report: p.target.Check(ctx)}
	var err error
	if seen.Page, err = p.target.List(ctx, instance.Filter{Partial: true}); err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "probe: instances are not known", "reason", instance.ReasonOf(err), "error", err)
	}
	if seen.Images, err = p.target.Images(ctx, ""); err != nil && ctx.Err() == nil {
		p.log.DebugContext(ctx, "probe: images are not known", "reason", instance.ReasonOf(err), "error", err)
	}
	if ctx.Err() != nil {
		return
	}
	p.logChanges(ctx, p.Last().Report, seen.Report)
	p.mu.Lock()
	p.last = seen
	p.mu.Unlock()
	p.show(seen)
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

const gib = 1 << 30

// show sets the gauges. What was not seen this time is gone, not stale.
func (p *prober) show(s snapshot) {
	p.ready.Reset()
	p.capacity.Reset()
	p.available.Reset()
	p.instances.Reset()
	unreachable := make(map[string]bool, len(s.Page.Unreachable))
	for _, u := range s.Page.Unreachable {
		unreachable[u.Host] = true
	}
	for _, h := range s.Report.Hosts {
		up := 0.0
		if h.Ready {
			up = 1
		}
		p.ready.WithLabelValues(h.Host, string(h.Reason)).Set(up)
		if d := h.Details; d.PoolCapacityGiB != nil && d.PoolAvailableGiB != nil {
			p.capacity.WithLabelValues(h.Host, d.Pool).Set(*d.PoolCapacityGiB * gib)
			p.available.WithLabelValues(h.Host, d.Pool).Set(*d.PoolAvailableGiB * gib)
		}
		if !unreachable[h.Host] {
			for _, state := range []instance.State{instance.Provisioning, instance.Running, instance.Stopped} {
				p.instances.WithLabelValues(h.Host, string(state))
			}
		}
	}
	for _, i := range s.Page.Items {
		p.instances.WithLabelValues(i.ID.Host, string(i.State)).Inc()
	}
	p.at.Set(float64(s.At.UnixNano()) / 1e9)
}
