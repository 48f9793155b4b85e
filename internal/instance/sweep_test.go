package instance_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const (
	attemptUUID = "0badcafe-0000-4000-8000-000000000000"
	attemptRoot = "kvm2." + testOwner + ".vm.0badcafe.root.qcow2"
	attemptSeed = "kvm2." + testOwner + ".vm.0badcafe.seed.iso"
)

// attempt is a create of another daemon's whose volumes are made, or all but
// the seed, and which has defined nothing yet.
type attempt struct {
	*room
	daemon *fakeHost
}

func newAttempt(r *room, seed bool) attempt {
	a := attempt{room: r, daemon: &fakeHost{room: r, name: "alpha"}}
	names := []string{attemptRoot}
	if seed {
		names = append(names, attemptSeed)
	}
	for _, name := range names {
		r.volumes[name] = &fakeVolume{Volume: instance.Volume{Name: name, Path: "/pool/" + name, PhysicalBytes: 196 << 10}}
	}
	return a
}

// finish makes the seed if it is still to be made, defines the machine and
// starts it, as far as it gets.
func (a attempt) finish(ctx context.Context, seed bool) {
	if seed {
		if _, err := a.daemon.CreateVolume(ctx, instance.NewVolume{Name: attemptSeed}); err != nil {
			return
		}
	}
	mark := instance.Mark{Owner: testOwner, UID: "uid-1"}
	if err := a.daemon.Define(ctx, instance.Definition{Name: "vm", UUID: attemptUUID, Mark: mark, OverlayPath: "/pool/" + attemptRoot}); err != nil {
		return
	}
	_ = a.daemon.Start(ctx, instance.Machine{Name: "vm", UUID: attemptUUID}, true)
}

// TestDelete_sweepNeverTakesTheDiskOfWhatRuns: a Delete that finds volumes
// without a machine cannot know whether another daemon is about to define and
// start one on them, at any of its calls. Whenever that happens, and wherever
// the Delete dies then, what runs has its disk, and a repeated create ends in
// one VM; one that lives ends with nothing, but for a machine that came after it
// (C2, C9, D2).
func TestDelete_sweepNeverTakesTheDiskOfWhatRuns(t *testing.T) {
	for _, seed := range []bool{true, false} {
		for at, met := 1, true; met; at++ {
			met = false
			for dies, died := at, true; died; dies++ {
				t.Run(fmt.Sprintf("seed %v, finished at call %d, died at call %d", seed, at, dies), func(t *testing.T) {
					var here bool
					here, died = sweepBeside(t, seed, at, dies)
					met = met || here
				})
			}
		}
	}
}

// sweepBeside deletes beside an attempt that finishes before the Delete's call
// number at; before call number dies the Delete's daemon is gone.
func sweepBeside(t *testing.T, seed bool, at, dies int) (met, died bool) {
	t.Helper()
	r := newRoom()
	w := newWorld(t, r)
	other := newAttempt(r, seed)
	var mu sync.Mutex
	calls := 0
	w.setHook(func(ctx context.Context, call string) (before, after error) {
		mu.Lock()
		defer mu.Unlock()
		calls++
		if calls == at {
			met = true
			other.finish(ctx, !seed)
		}
		if calls >= dies {
			died = true
			return &instance.Error{Reason: instance.ReasonUnreachable, Op: call, Host: "alpha", Err: errors.New("killed")}, nil
		}
		return nil, nil
	})
	err := w.Delete(t.Context(), vmID, "")
	w.setHook(nil)
	domains, volumes := r.snapshot(t)
	if m, ok := domains["vm"]; ok && m.Power == instance.PowerOn && !m.Mark.Deleting && r.volumes[m.Overlay] == nil {
		t.Errorf("what runs has lost its disk: %+v", m)
	}
	if !died && (err != nil || len(domains) == 0 && len(volumes) > 0) {
		t.Errorf("Delete = %v, and left volumes %v", err, volumes)
	}
	w.restart(t)
	w.mustCreate(t, spec("vm"))
	wantRunning(t, r)
	return met, died
}

// TestDelete_besideAnotherSweep: another daemon's sweep has taken the seed of an
// attempt, or occupied its name, found no machine, and is about to take the root
// disk. Whenever the attempt goes on, what runs has its disk.
func TestDelete_besideAnotherSweep(t *testing.T) {
	for name, took := range map[string]string{
		"the name of a seed that was still to be made, before the list": "",
		"the name of a seed that was still to be made, after the list":  "CreateVolume",
		"the seed": "seed",
	} {
		for at, met := 1, true; met; at++ {
			met = false
			t.Run(fmt.Sprintf("it took %s, the attempt goes on at call %d", name, at), func(t *testing.T) {
				met = sweepBesideSweep(t, took, at)
			})
		}
	}
}

// sweepBesideSweep deletes beside another sweep, which took the seed, or its
// name at the Delete's first call ("" is any), and beside an attempt that goes
// on at call number at from then.
func sweepBesideSweep(t *testing.T, took string, at int) (met bool) {
	t.Helper()
	r := newRoom()
	w := newWorld(t, r)
	other := newAttempt(r, false)
	toMake := took != "seed"
	var mu sync.Mutex
	began, calls := !toMake, 0
	w.setHook(func(ctx context.Context, call string) (before, after error) {
		mu.Lock()
		defer mu.Unlock()
		if !began && (took == "" || call == took) {
			began = true
			if _, err := other.daemon.CreateVolume(ctx, instance.NewVolume{Name: attemptSeed, Format: "dir"}); err != nil {
				t.Error(err)
			}
		}
		if began {
			calls++
		}
		if calls == at {
			met = true
			other.finish(ctx, toMake)
		}
		return nil, nil
	})
	// The attempt's machine has another uid: what is swept is not deleted in a second round.
	if err := w.Delete(t.Context(), vmID, "uid-2"); err != nil && instance.ReasonOf(err) != instance.ReasonUIDMismatch {
		t.Error(err)
	}
	if !began {
		t.Fatal("the other sweep took nothing")
	}
	// The other sweep goes on.
	if err := other.daemon.DeleteVolume(t.Context(), attemptRoot); err != nil {
		t.Error(err)
	}
	domains, _ := r.snapshot(t)
	if m, ok := domains["vm"]; ok && m.Power == instance.PowerOn {
		t.Errorf("what runs has lost its disk: %+v", m)
	}
	w.setHook(nil)
	w.mustCreate(t, spec("vm"))
	wantRunning(t, r)
	return met
}

// TestDelete_sparesWhatCameAfter: another daemon makes the instance anew, with
// another uid, between a Delete's undefine and its look for what is left. All of
// it stays (D5).
func TestDelete_sparesWhatCameAfter(t *testing.T) {
	r := newRoom()
	w, other := newWorld(t, r), newWorld(t, r)
	w.mustCreate(t, spec("vm"))
	anew := spec("vm")
	anew.UID = "uid-2"
	var undefined atomic.Bool
	w.setHook(func(ctx context.Context, call string) (before, after error) {
		switch {
		case call == "Undefine":
			undefined.Store(true)
		case call == "Volumes" && undefined.CompareAndSwap(true, false):
			if _, err := other.Create(ctx, anew, patience); err != nil {
				t.Error(err)
			}
		}
		return nil, nil
	})
	if err := w.Delete(t.Context(), vmID, "uid-1"); err != nil {
		t.Fatal(err)
	}
	if m := wantOneVM(t, r, "vm"); m.Mark.UID != "uid-2" {
		t.Errorf("got uid %q, want the one that came after", m.Mark.UID)
	}
}

// TestCreate_seedGoneBeforeItRan: without anything written there is nothing to
// keep, and a sweep may be about to take the root disk too. A sweep that died
// may have left its placeholder.
func TestCreate_seedGoneBeforeItRan(t *testing.T) {
	for _, placeholder := range []bool{false, true} {
		w := newWorld(t)
		r := w.host().room
		stopped(t, w, placeholder)
		got := w.mustCreate(t, spec("vm"))
		if m := wantOneVM(t, r, "vm"); m.UUID == attemptUUID || !got.Made {
			t.Errorf("placeholder %v: got UUID %s, made %v, want it made anew", placeholder, m.UUID, got.Made)
		}
	}
}

// TestCreate_placeholderOfOneThatRan is replaced by a seed: what its guest wrote stays.
func TestCreate_placeholderOfOneThatRan(t *testing.T) {
	w := newWorld(t)
	r := w.host().room
	stopped(t, w, true)
	r.volumes[attemptRoot].PhysicalBytes = 1 << 30
	got := w.mustCreate(t, spec("vm"))
	if m := wantOneVM(t, r, "vm"); m.UUID != attemptUUID || got.Made || isDir(r.volumes[attemptSeed]) {
		t.Errorf("got UUID %s, made %v, seed %+v, want the machine that was there with a seed", m.UUID, got.Made, r.volumes[attemptSeed])
	}
}

// stopped puts a machine without a seed into w, with a placeholder in its place or nothing.
func stopped(t *testing.T, w *world, placeholder bool) {
	t.Helper()
	r := w.host().room
	newAttempt(r, true).finish(t.Context(), false)
	if err := w.host().Stop(t.Context(), *r.domains["vm"]); err != nil {
		t.Fatal(err)
	}
	delete(r.volumes, attemptSeed)
	if placeholder {
		r.volumes[attemptSeed] = &fakeVolume{Volume: instance.Volume{Name: attemptSeed, Path: "/pool/" + attemptSeed, Format: "dir"}}
	}
}

func isDir(v *fakeVolume) bool { return v == nil || v.Format == "dir" }
