package instance_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const vmID = "hosts/alpha/domains/vm"

func TestDelete_malformedIDIsPermanent(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"", "..", "vm", "hosts/alpha", "hosts/alpha/domains/", "hosts/alpha/domains/A", vmID + "/"} {
		if got := instance.ReasonOf(w.Delete(t.Context(), id, "")); got != instance.ReasonMalformedID {
			t.Errorf("Delete(%q) = reason %s, want MalformedID", id, got)
		}
	}
}

func TestDelete_twiceSucceeds(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	for range 2 {
		if err := w.Delete(t.Context(), vmID, "uid-1"); err != nil {
			t.Fatal(err)
		}
	}
	wantNothing(t, w.host().room)
}

// TestDelete_removesOverlayAndSeed: and the console, rotated too, and earlier
// attempts' volumes; never the image or another name's or owner's volumes.
func TestDelete_removesOverlayAndSeed(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	w.mustCreate(t, spec("vm-2"))
	r := w.host().room
	put := func(name string) { r.volumes[name] = &fakeVolume{Volume: instance.Volume{Name: name}} }
	uuid8 := r.domains["vm"].UUID[:8]
	put("kvm2.tester.vm." + uuid8 + ".console.log")
	put("kvm2.tester.vm." + uuid8 + ".console.log.0")
	put("kvm2.tester.vm.0badcafe.root.qcow2")
	others := []string{"kvm2.other.vm.0badcafe.root.qcow2", "kvm2.tester.vmx.0badcafe.root.qcow2", "vm.qcow2", baseVolume}
	for _, name := range others {
		put(name)
	}
	if err := w.Delete(t.Context(), vmID, ""); err != nil {
		t.Fatal(err)
	}
	for name := range r.volumes {
		if strings.HasPrefix(name, "kvm2.tester.vm.") {
			t.Errorf("volume %s is left", name)
		}
	}
	for _, name := range others {
		if r.volumes[name] == nil {
			t.Errorf("volume %s, not ours to delete, is gone", name)
		}
	}
	if domains, _ := r.snapshot(t); len(domains) != 1 || domains["vm-2"].Power != instance.PowerOn {
		t.Errorf("got domains %v, want vm-2 running", domains)
	}
}

// TestDelete_runningDomainDestroyedFirst: D2's order, undefine last.
func TestDelete_runningDomainDestroyedFirst(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	var mu sync.Mutex
	var order []string
	w.setHook(func(_ context.Context, call string) (before, after error) {
		mu.Lock()
		defer mu.Unlock()
		if len(order) == 0 || order[len(order)-1] != call {
			order = append(order, call)
		}
		return nil, nil
	})
	if err := w.Delete(t.Context(), vmID, ""); err != nil {
		t.Fatal(err)
	}
	want := "Find RootDiskInPool SetMark Stop Rescan Volumes DeleteVolume Undefine Volumes Find Volumes"
	// The volumes go side by side.
	if got := strings.Join(order, " "); got != want {
		t.Errorf("got order %s, want %s", got, want)
	}
}

func TestDelete_toleratesMissingVolumesAndPool(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare func(r *room)
		want    instance.Reason
	}{
		{"volumes gone", func(r *room) { r.volumes = map[string]*fakeVolume{} }, ""},
		{"pool gone", func(r *room) { r.pool = instance.ReasonPoolNotFound }, ""},
		{"pool and domain gone", func(r *room) {
			r.pool = instance.ReasonPoolNotFound
			delete(r.domains, "vm")
		}, ""},
		{"domain gone", func(r *room) { delete(r.domains, "vm") }, ""},
		{"pool stopped", func(r *room) { r.pool = instance.ReasonPoolNotActive }, instance.ReasonPoolNotActive},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.mustCreate(t, spec("vm"))
			r := w.host().room
			tt.prepare(r)
			err := w.Delete(t.Context(), vmID, "")
			domains, volumes := r.snapshot(t)
			if tt.want != "" {
				wantReason(t, err, tt.want, "alpha", "vm")
				if len(domains) != 1 {
					t.Error("the domain is gone, want it kept")
				}
				return
			}
			if err != nil || len(domains) != 0 {
				t.Errorf("Delete = %v, domains %v left", err, domains)
			}
			if r.pool == "" && len(volumes) != 0 {
				t.Errorf("volumes %v are left", volumes)
			}
		})
	}
}

// TestDelete_volumeThatStays: it is told, and a repeat ends it; one that went by
// itself meanwhile is none.
func TestDelete_volumeThatStays(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	w.setHook(func(_ context.Context, call string) (before, after error) {
		if call == "DeleteVolume" {
			return &instance.Error{Reason: instance.ReasonLibvirtError, Op: call, Host: "alpha"}, nil
		}
		return nil, nil
	})
	wantReason(t, w.Delete(t.Context(), vmID, ""), instance.ReasonLibvirtError, "alpha", "vm")
	if domains, volumes := w.host().snapshot(t); len(domains) != 1 || len(volumes) != 2 {
		t.Errorf("got domains %v and volumes %v, want all kept for a repeat", domains, volumes)
	}
	w.setHook(func(_ context.Context, call string) (before, after error) {
		if call == "DeleteVolume" {
			after = &instance.Error{Reason: instance.ReasonVanished, Op: call, Host: "alpha", Err: instance.ErrNoVolume}
		}
		return nil, after
	})
	if err := w.Delete(t.Context(), vmID, ""); err != nil {
		t.Errorf("of volumes that are gone already: %v", err)
	}
	wantNothing(t, w.host().room)
}

func TestDelete_unconfiguredHostIsNoOp(t *testing.T) {
	w := newWorld(t)
	counted := 0
	w.opts.UnconfiguredDelete = func() { counted++ }
	w.restart(t)
	ctx, trail := instance.WithTrail(t.Context())
	if err := w.Delete(ctx, "hosts/nowhere/domains/vm", "uid-1"); err != nil {
		t.Fatal(err)
	}
	if _, warnings := trail.Read(); len(warnings) != 1 || !strings.Contains(warnings[0], "nowhere") {
		t.Errorf("got warnings %v, want one that names the host", warnings)
	}
	if counted != 1 || w.host().calls.Load() != 0 {
		t.Errorf("got the hook called %d times and %d host calls, want 1 and 0", counted, w.host().calls.Load())
	}
}

func TestDelete_otherUIDIsLeftAlone(t *testing.T) {
	for _, written := range []string{"uid-2", ""} {
		w := newWorld(t)
		w.mustCreate(t, spec("vm"))
		w.host().markOf("vm", func(m *instance.Mark) { m.UID = written })
		wantReason(t, w.Delete(t.Context(), vmID, "uid-1"), instance.ReasonUIDMismatch, "alpha", "vm")
		wantOneVM(t, w.host().room, "vm")
	}
}

// TestDelete_cancelsACreateThatDefinedNothing: in whatever it waits for, and
// nothing is left of it.
func TestDelete_cancelsACreateThatDefinedNothing(t *testing.T) {
	for _, call := range []string{"Find", "Preflight", "Ensure", "CreateVolume", "Upload", "Confirm"} {
		for _, guard := range []string{"", "uid-1"} {
			t.Run(call+" "+guard, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.setHook(slow(call, 3*time.Second))
					var wg sync.WaitGroup
					wg.Go(func() {
						_, err := w.Create(t.Context(), spec("vm"), time.Hour)
						wantReason(t, err, instance.ReasonCreateCancelled, "alpha", "vm")
					})
					synctest.Wait()
					if err := w.Delete(t.Context(), vmID, guard); err != nil {
						t.Error(err)
					}
					wg.Wait()
					wantNothing(t, w.host().room)
				})
			})
		}
	}
}

// TestDelete_waitsForACreateThatDefined: from the define on, a create runs to its end first.
func TestDelete_waitsForACreateThatDefined(t *testing.T) {
	for _, call := range []string{"Define", "Start", "Read"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.setHook(slow(call, 3*time.Second))
				var wg sync.WaitGroup
				wg.Go(func() { w.mustCreate(t, spec("vm")) })
				synctest.Wait()
				if err := w.Delete(t.Context(), vmID, ""); err != nil {
					t.Error(err)
				}
				wg.Wait()
				wantNothing(t, w.host().room)
			})
		})
	}
}

// TestDelete_leavesTheCreateOfAnotherUID: a guarded Delete of an incarnation
// that is gone does not disturb the next one.
func TestDelete_leavesTheCreateOfAnotherUID(t *testing.T) {
	for call, want := range map[string]instance.Reason{"Ensure": "", "Upload": instance.ReasonUIDMismatch} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.setHook(slow(call, 3*time.Second))
				var wg sync.WaitGroup
				wg.Go(func() { w.mustCreate(t, spec("vm")) })
				synctest.Wait()
				err := w.Delete(t.Context(), vmID, "uid-0")
				if want == "" && err != nil {
					t.Error(err)
				} else if want != "" {
					wantReason(t, err, want, "alpha", "vm")
				}
				wg.Wait()
				wantOneVM(t, w.host().room, "vm")
			})
		})
	}
}

func TestDelete_concurrentSameNameSafe(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := w.Delete(t.Context(), vmID, ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	wantNothing(t, w.host().room)
}

// TestDelete_startedByAnotherDaemonMeanwhile: a domain that was undefined while
// it ran is found by the read-back.
func TestDelete_startedByAnotherDaemonMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	raced := false
	w.setHook(func(_ context.Context, call string) (before, after error) {
		if call == "Undefine" && !raced {
			raced = true
			w.host().mu.Lock()
			w.host().domains["vm"].Power = instance.PowerOn
			w.host().mu.Unlock()
		}
		return nil, nil
	})
	if err := w.Delete(t.Context(), vmID, ""); err != nil {
		t.Fatal(err)
	}
	wantNothing(t, w.host().room)
}

// TestDelete_raceIsBounded: another daemon that makes the instance again and
// again does not hold a Delete for ever.
func TestDelete_raceIsBounded(t *testing.T) {
	r := newRoom()
	w, other := newWorld(t, r), newWorld(t, r)
	w.setHook(func(ctx context.Context, call string) (before, after error) {
		if call == "Find" {
			if _, err := other.Create(ctx, spec("vm"), patience); err != nil {
				t.Error(err)
			}
		}
		return nil, nil
	})
	wantReason(t, w.Delete(t.Context(), vmID, ""), instance.ReasonCreateInProgress, "alpha", "vm")
}
