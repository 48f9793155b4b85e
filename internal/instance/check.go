package instance

import (
	"context"
	"slices"
	"sync"
	"time"
)

// checkLimit bounds one run of a Check, whose hosts have limits of their own.
const checkLimit = time.Minute

// checkRun is one look at all hosts, shared by everybody who asks meanwhile.
type checkRun struct {
	began  time.Time
	hosts  []Host
	cancel context.CancelFunc
	// done is closed once every host has answered.
	done chan struct{}

	mu      sync.Mutex
	entries []*HostHealth
}

// Check looks at every host, side by side, each over a connection of its own
// (H1 to H3). It never fails: a caller whose ctx ends gets what is known by
// then, and the hosts that have not answered are entered as Timeout. Callers at
// the same time share one run.
func (s *Service) Check(ctx context.Context) Report {
	TrailFrom(ctx).Step("check the hosts")
	run := s.joinOrStartCheck(ctx)
	select {
	case <-run.done:
	case <-ctx.Done():
	}
	return run.report()
}

func (s *Service) joinOrStartCheck(ctx context.Context) *checkRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checking != nil {
		return s.checking
	}
	hosts := s.hosts.All()
	run := &checkRun{
		began: time.Now(), hosts: hosts, done: make(chan struct{}),
		entries: make([]*HostHealth, len(hosts)), cancel: func() {},
	}
	if s.closed || ctx.Err() != nil {
		// Nothing is begun for a caller who has left already.
		close(run.done)
		return run
	}
	work, _ := WithTrail(context.WithoutCancel(ctx))
	work, run.cancel = context.WithTimeout(work, checkLimit)
	s.checking = run
	s.work.Go(func() {
		defer run.cancel()
		s.look(work, run)
		s.mu.Lock()
		s.checking = nil
		s.mu.Unlock()
		close(run.done)
	})
	return run
}

// look asks all hosts and notes each answer as it comes.
func (s *Service) look(ctx context.Context, c *checkRun) {
	steps := make([]func(context.Context) error, 0, len(c.hosts))
	for i, h := range c.hosts {
		steps = append(steps, func(ctx context.Context) error {
			began := time.Now()
			var entry HostHealth
			err := guarded(ctx, func(ctx context.Context) error {
				entry = h.Check(ctx)
				return nil
			})
			if err != nil {
				s.tellPanic(ctx, err)
				entry = HostHealth{Reason: ReasonInternal, Message: err.Error(), Latency: time.Since(began)}
			}
			entry.Host = h.Name()
			c.mu.Lock()
			defer c.mu.Unlock()
			c.entries[i] = &entry
			return nil
		})
	}
	// The steps never fail: each keeps its own outcome.
	_ = sideBySide(ctx, steps...)
}

// report tells what is known now.
func (c *checkRun) report() Report {
	c.mu.Lock()
	known := slices.Clone(c.entries)
	c.mu.Unlock()
	entries := make([]HostHealth, len(known))
	for i, e := range known {
		if e != nil {
			entries[i] = *e
			continue
		}
		entries[i] = HostHealth{
			Host: c.hosts[i].Name(), Reason: ReasonTimeout, Message: "no answer by the time the caller had",
			Latency: time.Since(c.began),
		}
	}
	markTwins(entries)
	return Report{Status: sum(entries), Hosts: entries}
}

// markTwins finds one libvirt under two names: both would count its room, and
// each would take the other's instances for its own.
func markTwins(entries []HostHealth) {
	type libvirt struct{ host, pool string }
	names := map[libvirt][]int{}
	for i, e := range entries {
		if key := (libvirt{e.Details.HostUUID, e.Details.PoolUUID}); key.host != "" && key.pool != "" {
			names[key] = append(names[key], i)
		}
	}
	for _, same := range names {
		if len(same) < 2 {
			continue
		}
		for n, i := range same {
			e := &entries[i]
			if !e.Ready && e.Reason != ReasonMaintenance {
				continue
			}
			other := entries[same[(n+1)%len(same)]].Host
			e.Ready, e.Reason = false, ReasonMisconfigured
			e.Message = "the same libvirt and pool as host " + other + ": configure it once"
		}
	}
}

func sum(entries []HostHealth) HealthStatus {
	ready := 0
	for _, e := range entries {
		if e.Ready {
			ready++
		}
	}
	switch ready {
	case 0:
		return HealthDown
	case len(entries):
		return HealthOK
	}
	return HealthDegraded
}
