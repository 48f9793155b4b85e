//go:build faults

package faults_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
)

// fault is one way to break the way to a host.
type fault struct {
	name string
	// limits are quick when zero.
	limits libvirtx.Limits
	// proxied puts a proxy between us and the SSH server.
	proxied bool
	// upload: the first answer is that of an upload which is under way when the
	// fault comes, not that of a read.
	upload bool
	// inject breaks something, repair mends it; the host is as before then.
	inject, repair func(x *target)
	// first and then are the reasons of the first answer, on the session that
	// the fault met, and of the second and a health check, which dial.
	first, then []instance.Reason
	// Each answer comes within, and the first not before notBefore.
	within, notBefore time.Duration
	// healed bounds the time from the end of repair to a success in both lanes.
	healed time.Duration
}

// healSoon is the longest that a failed dial is remembered, plus a dial.
const healSoon = 6 * time.Second

// try has a row made of it.
func (f fault) try(t *testing.T, hosts map[string]labHost) {
	t.Helper()
	if f.limits == (libvirtx.Limits{}) {
		f.limits = quick
	}
	x := newTarget(t, hosts["h1"], f.limits, f.proxied)
	row := begin(t, f.name, x, hosts["h2"])
	var outcome <-chan error
	if f.upload {
		outcome = uploading(x)
	}
	// A row that ends early must not spoil the next.
	repair := sync.OnceFunc(func() { f.repair(x) })
	t.Cleanup(repair)
	f.inject(x)
	row.ask(f, f.first, func() error {
		if f.upload {
			return <-outcome
		}
		return read(t.Context(), x)
	})
	f.notBefore = 0
	row.ask(f, f.then, func() error { return read(t.Context(), x) })
	row.ask(f, f.then, func() error { return healthError(x.host.Check(t.Context())) })
	repair()
	row.heal(f.healed)
	row.end()
}

// healthError is a health entry as the error that it stands for.
func healthError(h instance.HostHealth) error {
	if h.Ready {
		return nil
	}
	return instance.Errorf(h.Reason, "%s", h.Message)
}

// observation is a row in the making.
type observation struct {
	*result
	t         *testing.T
	x         *target
	bystander *bystander
}

// begin warms both ways up and counts.
func begin(t *testing.T, name string, x *target, other labHost) *observation {
	t.Helper()
	o := &observation{result: &result{fault: name}, t: t, x: x}
	results = append(results, o.result)
	t.Cleanup(func() { o.failed = t.Failed() })
	y := newTarget(t, other, libvirtx.DefaultLimits(), false)
	for _, way := range []*target{x, y} {
		if err := useBothLanes(t.Context(), way); err != nil {
			t.Fatalf("before the fault: %v", err)
		}
	}
	o.goroutines[0], o.connections[0] = settled(x)
	o.bystander = startBystander(t, y)
	return o
}

// ask makes a call that is to fail for one of these reasons.
func (o *observation) ask(f fault, want []instance.Reason, call func() error) {
	o.t.Helper()
	began := time.Now()
	err := call()
	took := time.Since(began)
	o.answered = max(o.answered, took)
	if err == nil {
		o.t.Errorf("a call succeeded after %v, want %v", took, want)
		return
	}
	reason := instance.ReasonOf(err)
	o.kind = string(instance.ReasonOf(err).Kind())
	if !slices.Contains(strings.Split(o.reason, ", "), string(reason)) {
		o.reason = strings.TrimPrefix(o.reason+", "+string(reason), ", ")
	}
	o.t.Logf("%.1f s: %s: %v", took.Seconds(), reason, err)
	if !slices.Contains(want, reason) {
		o.t.Errorf("got %s (%v), want one of %v", reason, err, want)
	}
	if took > f.within || took < f.notBefore {
		o.t.Errorf("answered after %v, want between %v and %v", took, f.notBefore, f.within)
	}
}

// heal waits until calls succeed again.
func (o *observation) heal(limit time.Duration) {
	o.t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(o.t.Context(), limit+10*time.Second)
	defer cancel()
	var err error
	until(ctx, func() bool {
		err = useBothLanes(ctx, o.x)
		return err == nil
	})
	took := time.Since(began)
	o.healed = max(o.healed, took)
	if err != nil || took > limit {
		o.t.Errorf("healed after %v (%v), want at most %v", took, err, limit)
	}
}

// end counts again, and closes.
func (o *observation) end() {
	o.t.Helper()
	o.bystanderCalls, o.bystanderMax = o.bystander.stop(o.t)
	o.wait(func() bool {
		o.goroutines[1], o.connections[1] = settled(o.x)
		return o.goroutines[0] == o.goroutines[1] && o.connections[0] == o.connections[1]
	})
	if o.goroutines[0] != o.goroutines[1] || o.connections[0] != o.connections[1] {
		o.t.Errorf("before and after: goroutines %v, connections %v", o.goroutines, o.connections)
	}
	if err := o.x.link.Close(); err != nil {
		o.t.Errorf("close: %v", err)
	}
	left := 0
	o.wait(func() bool {
		left = o.x.connections()
		return left == 0
	})
	if left > 0 {
		o.t.Errorf("%d connections at the SSH server after close", left)
	}
}

// wait polls for a few seconds, until ok.
func (o *observation) wait(ok func() bool) {
	ctx, cancel := context.WithTimeout(o.t.Context(), 5*time.Second)
	defer cancel()
	until(ctx, ok)
}

// settled counts goroutines and connections when two counts in a row agree.
func settled(x *target) (goroutines, connections int) {
	ctx, cancel := context.WithTimeout(x.Context(), time.Second)
	defer cancel()
	until(ctx, func() bool {
		g, c := runtime.NumGoroutine(), x.connections()
		same := g == goroutines && c == connections
		goroutines, connections = g, c
		return same
	})
	return goroutines, connections
}

// until polls until ok or the end of ctx.
func until(ctx context.Context, ok func() bool) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// bystander uses another host all the while.
type bystander struct {
	cancel context.CancelFunc
	work   sync.WaitGroup
	calls  int
	worst  time.Duration
	err    error
}

func startBystander(t *testing.T, y *target) *bystander {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	b := &bystander{cancel: cancel}
	b.work.Go(func() {
		until(ctx, func() bool {
			began := time.Now()
			// Not under ctx: its end is no failure.
			err := read(context.WithoutCancel(ctx), y)
			b.calls++
			b.worst = max(b.worst, time.Since(began))
			b.err = err
			return err != nil
		})
	})
	t.Cleanup(func() { cancel(); b.work.Wait() })
	return b
}

func (b *bystander) stop(t *testing.T) (calls int, worst time.Duration) {
	t.Helper()
	b.cancel()
	b.work.Wait()
	if b.err != nil || b.calls == 0 || b.worst > 2*time.Second {
		t.Errorf("the other host: %d calls, the slowest took %v: %v", b.calls, b.worst, b.err)
	}
	return b.calls, b.worst
}
