package instance_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func reasons(r instance.Report) []instance.Reason {
	var out []instance.Reason
	for _, h := range r.Hosts {
		out = append(out, h.Reason)
	}
	return out
}

func TestCheck_oneEntryPerHostInConfigOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newRoom(), newRoom(), newRoom())
		for i, h := range w.hosts {
			h.health = func(context.Context) instance.HostHealth {
				<-time.After(time.Duration(3-i) * time.Second)
				return instance.HostHealth{Ready: true, Reason: instance.ReasonReady}
			}
		}
		got := w.Check(t.Context())
		if got.Status != instance.HealthOK || len(got.Hosts) != 3 {
			t.Fatalf("got %+v, want three ready hosts", got)
		}
		for i, want := range []string{"alpha", "beta", "gamma"} {
			if got.Hosts[i].Host != want {
				t.Errorf("entry %d is of host %s, want %s", i, got.Hosts[i].Host, want)
			}
		}
	})
}

func TestCheck_hostsCheckedConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newRoom(), newRoom(), newRoom())
		var checks atomic.Int64
		for _, h := range w.hosts {
			h.health = func(context.Context) instance.HostHealth {
				checks.Add(1)
				<-time.After(time.Second)
				return instance.HostHealth{Ready: true, Reason: instance.ReasonReady}
			}
		}
		began := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { w.Check(t.Context()) })
		}
		wg.Wait()
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %s, want one host's time", took)
		}
		if got := checks.Load(); got != 3 {
			t.Errorf("got %d host checks for simultaneous callers, want 3", got)
		}
		w.Check(t.Context())
		if got := checks.Load(); got != 6 {
			t.Errorf("got %d host checks after a later call, want a run of its own", got)
		}
	})
}

func TestCheck_expiredContextReturnsPromptly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newRoom(), newRoom())
		w.hosts[1].health = func(ctx context.Context) instance.HostHealth {
			<-ctx.Done()
			return instance.HostHealth{Reason: instance.ReasonTimeout}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		got := w.Check(ctx)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("took %s, want the caller's time", took)
		}
		if diff := cmp.Diff([]instance.Reason{instance.ReasonReady, instance.ReasonTimeout}, reasons(got)); diff != "" {
			t.Errorf("reasons (-want +got)\n%s", diff)
		}
		if got.Status != instance.HealthDegraded {
			t.Errorf("got status %s, want degraded", got.Status)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if got := w.Check(gone); len(got.Hosts) != 2 {
			t.Errorf("got %+v, want an entry for each host", got)
		}
		closeNow(w.Service)
	})
}

func TestCheck_reasonsTable(t *testing.T) {
	for _, r := range []instance.Reason{
		instance.ReasonUnreachable, instance.ReasonTimeout, instance.ReasonAuthenticationFailed, instance.ReasonHostKeyRejected,
		instance.ReasonCredentialsUnavailable, instance.ReasonLibvirtUnavailable, instance.ReasonLibvirtTooOld,
		instance.ReasonPoolNotFound, instance.ReasonPoolNotActive, instance.ReasonFirmwareMissing, instance.ReasonMisconfigured,
	} {
		t.Run(string(r), func(t *testing.T) {
			w := newWorld(t)
			w.host().health = func(context.Context) instance.HostHealth { return instance.HostHealth{Reason: r, Message: "why"} }
			got := w.Check(t.Context())
			want := instance.Report{Status: instance.HealthDown, Hosts: []instance.HostHealth{{Host: "alpha", Reason: r, Message: "why"}}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	t.Run("Maintenance", func(t *testing.T) {
		w := newWorld(t, newRoom(), newRoom())
		w.hosts[1].maintenance = true
		got := w.Check(t.Context())
		if diff := cmp.Diff([]instance.Reason{instance.ReasonReady, instance.ReasonMaintenance}, reasons(got)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if got.Status != instance.HealthDegraded || got.Hosts[1].Ready {
			t.Errorf("got %+v, want it degraded and beta not ready", got)
		}
	})
	t.Run("Internal", func(t *testing.T) {
		w := newWorld(t)
		w.host().health = func(context.Context) instance.HostHealth { panic("of a check") }
		if diff := cmp.Diff([]instance.Reason{instance.ReasonInternal}, reasons(w.Check(t.Context()))); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// TestCheck_sameLibvirtUnderTwoNames: both names are Misconfigured, unless one
// has a worse trouble of its own.
func TestCheck_sameLibvirtUnderTwoNames(t *testing.T) {
	w := newWorld(t, newRoom(), newRoom(), newRoom(), newRoom())
	for i, d := range []instance.HostDetails{
		{HostUUID: "h1", PoolUUID: "p1"}, {HostUUID: "h1", PoolUUID: "p2"}, {HostUUID: "h1", PoolUUID: "p1"}, {HostUUID: "h1", PoolUUID: "p1"},
	} {
		ready := i != 3
		reason := instance.ReasonReady
		if !ready {
			reason = instance.ReasonPoolNotActive
		}
		w.hosts[i].health = func(context.Context) instance.HostHealth {
			return instance.HostHealth{Ready: ready, Reason: reason, Details: d}
		}
	}
	got := w.Check(t.Context())
	want := []instance.Reason{
		instance.ReasonMisconfigured, instance.ReasonReady, instance.ReasonMisconfigured, instance.ReasonPoolNotActive,
	}
	if diff := cmp.Diff(want, reasons(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestCheck_twinsAreKnownByBothUUIDs: a host that does not tell its own, or has
// no pool to tell of, is nobody's twin.
func TestCheck_twinsAreKnownByBothUUIDs(t *testing.T) {
	w := newWorld(t, newRoom(), newRoom(), newRoom(), newRoom())
	for i, d := range []instance.HostDetails{{HostUUID: "h1"}, {HostUUID: "h1"}, {PoolUUID: "p1"}, {PoolUUID: "p1"}} {
		w.hosts[i].health = func(context.Context) instance.HostHealth {
			return instance.HostHealth{Ready: true, Reason: instance.ReasonReady, Details: d}
		}
	}
	if got := w.Check(t.Context()); got.Status != instance.HealthOK {
		t.Errorf("got %s, %v, want all ready", got.Status, reasons(got))
	}
}
