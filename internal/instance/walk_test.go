package instance_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// failAt makes call number n of a world fail; lost lets it act first.
func failAt(n int64, lost bool, reason instance.Reason) (hook, *atomic.Int64) {
	var calls atomic.Int64
	return func(_ context.Context, call string) (before, after error) {
		if calls.Add(1) != n {
			return nil, nil
		}
		err := &instance.Error{Reason: reason, Op: call, Host: "alpha", Err: errors.New("injected")}
		if lost {
			return nil, err
		}
		return err, nil
	}, &calls
}

// dieAt makes every call from number n on fail, the n-th perhaps after it acted.
func dieAt(n int64, lost bool) (hook, *atomic.Int64) {
	var calls atomic.Int64
	return func(_ context.Context, call string) (before, after error) {
		err := &instance.Error{Reason: instance.ReasonUnreachable, Op: call, Host: "alpha", Err: errors.New("injected")}
		switch at := calls.Add(1); {
		case at < n:
			return nil, nil
		case at == n && lost:
			return nil, err
		}
		return err, nil
	}, &calls
}

// walks are the ways in which a call can go wrong.
var walks = []struct {
	name string
	hook func(n int64) (hook, *atomic.Int64)
}{
	{"call refused", func(n int64) (hook, *atomic.Int64) { return failAt(n, false, instance.ReasonLibvirtError) }},
	{"call not sent", func(n int64) (hook, *atomic.Int64) { return failAt(n, false, instance.ReasonUnreachable) }},
	{"answer lost", func(n int64) (hook, *atomic.Int64) { return failAt(n, true, instance.ReasonTimeout) }},
	{"connection dies before", func(n int64) (hook, *atomic.Int64) { return dieAt(n, false) }},
	{"connection dies after", func(n int64) (hook, *atomic.Int64) { return dieAt(n, true) }},
}

// partialStates prepare what a crash of a create or delete can have left.
func partialStates() map[string]func(t *testing.T, w *world) {
	made := func(change func(r *room, m *instance.Machine)) func(*testing.T, *world) {
		return func(t *testing.T, w *world) {
			t.Helper()
			w.mustCreate(t, spec("vm"))
			r := w.host().room
			change(r, r.domains["vm"])
		}
	}
	volume := func(what string) func(*testing.T, *world) {
		return func(_ *testing.T, w *world) {
			name := "kvm2." + testOwner + ".vm.0badcafe." + what
			w.host().volumes[name] = &fakeVolume{Volume: instance.Volume{Name: name, Path: "/pool/" + name}}
		}
	}
	off := func(m *instance.Machine) { m.Power = instance.PowerOff }
	deleting := func(m *instance.Machine) {
		mark := *m.Mark
		mark.Deleting = true
		m.Mark = &mark
	}
	return map[string]func(*testing.T, *world){
		"nothing":         func(*testing.T, *world) {},
		"overlay only":    volume("root.qcow2"),
		"seed only":       volume("seed.iso"),
		"console only":    volume("console.log"),
		"rotated console": volume("console.log.0"),
		"running":         made(func(*room, *instance.Machine) {}),
		"defined, off":    made(func(_ *room, m *instance.Machine) { off(m) }),
		"off, overlay gone": made(func(r *room, m *instance.Machine) {
			off(m)
			delete(r.volumes, m.Overlay)
		}),
		"off, seed gone": made(func(r *room, m *instance.Machine) {
			off(m)
			delete(r.volumes, strings.Replace(m.Overlay, "root.qcow2", "seed.iso", 1))
		}),
		"running, overlay gone": made(func(r *room, m *instance.Machine) { delete(r.volumes, m.Overlay) }),
		"marked deleting":       made(func(_ *room, m *instance.Machine) { deleting(m) }),
		"deleting, off": made(func(_ *room, m *instance.Machine) {
			deleting(m)
			off(m)
		}),
		"deleting, off, no volumes": made(func(r *room, m *instance.Machine) {
			deleting(m)
			off(m)
			for name := range r.volumes {
				if name != baseVolume {
					delete(r.volumes, name)
				}
			}
		}),
		"running, transient": made(func(_ *room, m *instance.Machine) { m.Persistent = false }),
		"empty uid": made(func(_ *room, m *instance.Machine) {
			mark := *m.Mark
			mark.UID = ""
			m.Mark = &mark
		}),
	}
}

// TestCreate_resumesAfterEachPartialStep walks a create through a failure at
// every call, from every state that a crash can leave. After each, the same
// call again must end in one running VM with its own volumes and no other.
func TestCreate_resumesAfterEachPartialStep(t *testing.T) {
	states := partialStates()
	// Nothing is resumed there: TestCreate_whatRunsIsKept.
	delete(states, "running, overlay gone")
	delete(states, "running, transient")
	for state, prepare := range states {
		for _, walk := range walks {
			t.Run(state+"/"+walk.name, func(t *testing.T) {
				for n := int64(1); ; n++ {
					if createFailingAt(t, prepare, walk.hook, n) {
						t.Logf("walked %d calls", n-1)
						return
					}
				}
			})
		}
	}
}

// createFailingAt tells whether the create passed without meeting its fault.
func createFailingAt(t *testing.T, prepare func(*testing.T, *world), fault func(int64) (hook, *atomic.Int64), n int64) (untouched bool) {
	t.Helper()
	w := newWorld(t)
	prepare(t, w)
	h, calls := fault(n)
	w.setHook(h)
	first, err := w.Create(t.Context(), spec("vm"), patience)
	closeNow(w.Service)
	untouched = calls.Load() < n
	if untouched && err != nil {
		t.Fatalf("Create without a fault = %v", err)
	}
	if err != nil && instance.ReasonOf(err).Kind() != instance.Transient {
		t.Errorf("n=%d: got kind %s (%v), want Transient", n, instance.ReasonOf(err).Kind(), err)
	}
	w.setHook(nil)
	w.restart(t)
	again := w.mustCreate(t, spec("vm"))
	if want := (instance.ID{Host: "alpha", Name: "vm"}); again.Instance.ID != want {
		t.Errorf("n=%d: got ID %v, want %v", n, again.Instance.ID, want)
	}
	if err == nil && again.Made {
		t.Errorf("n=%d: the repeat of a create that succeeded (%v) made the VM anew", n, first.Instance.ID)
	}
	if t.Failed() {
		t.Fatalf("n=%d", n)
	}
	m := wantOneVM(t, w.host().room, "vm")
	if m.Mark.UID != "uid-1" || !w.host().autostart[m.UUID] {
		t.Errorf("n=%d: got uid %q, autostart %v, want uid-1 and true", n, m.Mark.UID, w.host().autostart[m.UUID])
	}
	if t.Failed() {
		t.Fatalf("n=%d", n)
	}
	return untouched
}

// TestDelete_endsEmptyFromEveryPartialState walks a delete likewise; with it,
// what is not the instance's stays.
func TestDelete_endsEmptyFromEveryPartialState(t *testing.T) {
	for state, prepare := range partialStates() {
		for _, walk := range walks {
			t.Run(state+"/"+walk.name, func(t *testing.T) {
				for n := int64(1); ; n++ {
					if deleteFailingAt(t, prepare, walk.hook, n) {
						t.Logf("walked %d calls", n-1)
						return
					}
				}
			})
		}
	}
}

func deleteFailingAt(t *testing.T, prepare func(*testing.T, *world), fault func(int64) (hook, *atomic.Int64), n int64) (untouched bool) {
	t.Helper()
	w := newWorld(t)
	prepare(t, w)
	h, calls := fault(n)
	w.setHook(h)
	err := w.Delete(t.Context(), "hosts/alpha/domains/vm", "")
	untouched = calls.Load() < n
	if untouched && err != nil {
		t.Fatalf("Delete without a fault = %v", err)
	}
	if err != nil && instance.ReasonOf(err).Kind() != instance.Transient {
		t.Errorf("n=%d: got kind %s (%v), want Transient", n, instance.ReasonOf(err).Kind(), err)
	}
	w.setHook(nil)
	if err := w.Delete(t.Context(), "hosts/alpha/domains/vm", ""); err != nil {
		t.Fatalf("n=%d: Delete again = %v", n, err)
	}
	wantNothing(t, w.host().room)
	if t.Failed() {
		t.Fatalf("n=%d", n)
	}
	return untouched
}
