package instance_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func TestCreate_repeatReturnsSameIDAndCreatesNothing(t *testing.T) {
	w := newWorld(t)
	first := w.mustCreate(t, spec("vm"))
	before, volumes := w.host().snapshot(t)

	repeat := spec("vm")
	repeat.Image, repeat.Size, repeat.Tags = "tiny", "asimage", nil
	w.host().maintenance = true
	again := w.mustCreate(t, repeat)
	if again.Made || again.Instance.ID != first.Instance.ID {
		t.Errorf("got %+v, want the first instance, not made anew", again)
	}
	if diff := cmp.Diff(first.Instance.Tags, again.Instance.Tags); diff != "" || again.Instance.Image != "debian" {
		t.Errorf("the repeat changed the instance: %+v", again.Instance)
	}
	after, volumesAfter := w.host().snapshot(t)
	if diff := cmp.Diff(before["vm"].UUID, after["vm"].UUID); diff != "" || !slices.Equal(volumes, volumesAfter) {
		t.Errorf("the repeat changed the host: %v %v", after, volumesAfter)
	}
	if got := w.images.downloads.Load(); got != 1 {
		t.Errorf("got %d downloads, want 1", got)
	}
}

// markOf changes the mark of the machine in the room.
func (r *room) markOf(name string, change func(*instance.Mark)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mark := *r.domains[name].Mark
	change(&mark)
	r.domains[name].Mark = &mark
}

func TestCreate_adoptionWithForeignUIDIsPermanent(t *testing.T) {
	for _, tt := range []struct {
		name            string
		written, asking string
		want            instance.Reason
	}{
		{"same", "uid-1", "uid-1", ""},
		{"other", "uid-2", "uid-1", instance.ReasonUIDMismatch},
		{"asking without", "uid-2", "", instance.ReasonUIDMismatch},
		{"written without", "", "uid-1", ""},
		{"both without", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.mustCreate(t, spec("vm"))
			w.host().markOf("vm", func(m *instance.Mark) { m.UID = tt.written })
			s := spec("vm")
			s.UID = tt.asking
			got, err := w.Create(t.Context(), s, patience)
			if tt.want != "" {
				wantReason(t, err, tt.want, "alpha", "vm")
				if !errors.Is(err, instance.Permanent) {
					t.Errorf("got kind %s, want Permanent", instance.ReasonOf(err).Kind())
				}
				if domains, _ := w.host().snapshot(t); domains["vm"].Mark.UID != tt.written {
					t.Errorf("got uid %q written, want %q left alone", domains["vm"].Mark.UID, tt.written)
				}
				return
			}
			if err != nil || got.Instance.UID != tt.asking {
				t.Errorf("Create = %+v, %v, want uid %q", got.Instance, err, tt.asking)
			}
		})
	}
}

func TestCreate_foreignDomainIsNameTaken(t *testing.T) {
	for name, mark := range map[string]*instance.Mark{"unmarked": nil, "another owner's": {Owner: "other", UID: "uid-1"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			foreign := &instance.Machine{Name: "vm", UUID: "11111111-0000-4000-8000-000000000000", Mark: mark, Persistent: true}
			w.host().domains["vm"] = foreign
			before := *foreign
			_, err := w.Create(t.Context(), spec("vm"), patience)
			wantReason(t, err, instance.ReasonNameTaken, "alpha", "vm")
			wantReason(t, w.Delete(t.Context(), "hosts/alpha/domains/vm", ""), instance.ReasonNameTaken, "alpha", "vm")
			_, err = w.Get(t.Context(), "hosts/alpha/domains/vm")
			wantReason(t, err, instance.ReasonInstanceNotFound, "alpha", "vm")
			if diff := cmp.Diff(before, *foreign); diff != "" {
				t.Errorf("the foreign domain was touched (-want +got)\n%s", diff)
			}
		})
	}
}

func TestCreate_pausedIsNotResumed(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	w.host().domains["vm"].Power = instance.PowerPaused
	_, err := w.Create(t.Context(), spec("vm"), patience)
	wantReason(t, err, instance.ReasonDomainPaused, "alpha", "vm")
	if domains, _ := w.host().snapshot(t); domains["vm"].Power != instance.PowerPaused {
		t.Errorf("got power %v, want it left paused", domains["vm"].Power)
	}
}

// TestCreate_unfinishedDeleteIsFinishedFirst: whoever's it was, and with a new
// incarnation in its place.
func TestCreate_unfinishedDeleteIsFinishedFirst(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	old := w.host().domains["vm"].UUID
	w.host().markOf("vm", func(m *instance.Mark) { m.Deleting, m.UID = true, "uid-0" })
	got := w.mustCreate(t, spec("vm"))
	if m := wantOneVM(t, w.host().room, "vm"); m.UUID == old || !got.Made {
		t.Errorf("got UUID %s, made %v, want a new incarnation", m.UUID, got.Made)
	}
}

// TestCreate_otherDaemonDefinesFirst: libvirt decides (I5); the loser goes on
// with the winner's domain and takes its own volumes back.
func TestCreate_otherDaemonDefinesFirst(t *testing.T) {
	for _, uid := range []string{"uid-1", "uid-2"} {
		// Before the loser's volumes are made, the winner cannot remove them.
		for _, at := range []string{"CreateVolume", "Define"} {
			t.Run(uid+"/"+at, func(t *testing.T) { loseTheName(t, uid, at) })
		}
	}
}

// loseTheName lets another daemon create the instance, with that uid, right
// before a create's call.
func loseTheName(t *testing.T, uid, at string) {
	t.Helper()
	r := newRoom()
	loser, winner := newWorld(t, r), newWorld(t, r)
	var once sync.Once
	loser.setHook(func(ctx context.Context, call string) (before, after error) {
		if call == at {
			once.Do(func() {
				s := spec("vm")
				s.UID = uid
				if _, err := winner.Create(ctx, s, patience); err != nil {
					t.Error(err)
				}
			})
		}
		return nil, nil
	})
	got, err := loser.Create(t.Context(), spec("vm"), patience)
	if uid == "uid-1" && (err != nil || got.Made) {
		t.Errorf("Create = %+v, %v, want the winner's instance", got, err)
	}
	if uid != "uid-1" {
		wantReason(t, err, instance.ReasonUIDMismatch, "alpha", "vm")
	}
	wantOneVM(t, r, "vm")
}

// TestCreate_maintenanceRemovesNothing: what could not be made anew is kept.
func TestCreate_maintenanceRemovesNothing(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	m := w.host().domains["vm"]
	m.Power = instance.PowerOff
	delete(w.host().volumes, m.Overlay)
	w.host().maintenance = true
	_, err := w.Create(t.Context(), spec("vm"), patience)
	wantReason(t, err, instance.ReasonHostInMaintenance, "alpha", "vm")
	if domains, _ := w.host().snapshot(t); len(domains) != 1 {
		t.Error("the machine was removed")
	}
}

// TestCreate_diskThatWasNotListed: a host that had not looked at its pool does
// not cost the machine.
func TestCreate_diskThatWasNotListed(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	m := w.host().domains["vm"]
	uuid, overlay := m.UUID, w.host().volumes[m.Overlay]
	delete(w.host().volumes, m.Overlay)
	w.setHook(func(_ context.Context, call string) (before, after error) {
		if call == "Rescan" {
			w.host().mu.Lock()
			w.host().volumes[m.Overlay] = overlay
			w.host().mu.Unlock()
		}
		return nil, nil
	})
	w.mustCreate(t, spec("vm"))
	if got := wantOneVM(t, w.host().room, "vm"); got.UUID != uuid {
		t.Error("the machine was made anew")
	}
}

// TestCreate_seedGoneIsMadeAnew: the root disk's data is not given up for a seed
// that can be made again.
func TestCreate_seedGoneIsMadeAnew(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	m := w.host().domains["vm"]
	uuid, seed := m.UUID, strings.Replace(m.Overlay, "root.qcow2", "seed.iso", 1)
	m.Power = instance.PowerOff
	want := w.host().volumes[seed].content
	delete(w.host().volumes, seed)
	got := w.mustCreate(t, spec("vm"))
	if m := wantOneVM(t, w.host().room, "vm"); m.UUID != uuid || got.Made {
		t.Errorf("got UUID %s, made %v, want the machine kept", m.UUID, got.Made)
	}
	if diff := cmp.Diff(want, w.host().volumes[seed].content); diff != "" {
		t.Errorf("seed (-want +got)\n%s", diff)
	}
}

// TestCreate_snapshotIsNotUnwritten: the overlay that a snapshot has just made is
// as short as one that nobody wrote to, and the data is below it.
func TestCreate_snapshotIsNotUnwritten(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	m := w.host().domains["vm"]
	uuid, root := m.UUID, m.Overlay
	m.Power, m.Overlay = instance.PowerOff, strings.Replace(root, "qcow2", "before-upgrade", 1)
	w.host().volumes[m.Overlay] = &fakeVolume{Volume: instance.Volume{Name: m.Overlay, PhysicalBytes: 196 << 10}}
	delete(w.host().volumes, strings.Replace(root, "root.qcow2", "seed.iso", 1))
	w.mustCreate(t, spec("vm"))
	if domains, _ := w.host().snapshot(t); domains["vm"].UUID != uuid || w.host().volumes[root] == nil {
		t.Error("the machine was made anew")
	}
}

// TestCreate_failedSeedIsNotLeft: a later start must not meet half a seed.
func TestCreate_failedSeedIsNotLeft(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	m := w.host().domains["vm"]
	seed := strings.Replace(m.Overlay, "root.qcow2", "seed.iso", 1)
	m.Power = instance.PowerOff
	delete(w.host().volumes, seed)
	w.setHook(func(_ context.Context, call string) (before, after error) {
		if call == "Upload" {
			return &instance.Error{Reason: instance.ReasonUnreachable, Host: "alpha"}, nil
		}
		return nil, nil
	})
	_, err := w.Create(t.Context(), spec("vm"), patience)
	wantReason(t, err, instance.ReasonUnreachable, "alpha", "vm")
	if _, volumes := w.host().snapshot(t); !slices.Equal(volumes, []string{m.Overlay}) {
		t.Errorf("got volumes %v, want the root disk alone", volumes)
	}
}

// TestCreate_whatRunsIsKept: a machine that runs holds data, with its disk gone
// from the pool or its definition from the host. Once it is off, it is made anew.
func TestCreate_whatRunsIsKept(t *testing.T) {
	for name, harm := range map[string]func(*room, *instance.Machine){
		"without its disk":   func(r *room, m *instance.Machine) { delete(r.volumes, m.Overlay) },
		"without definition": func(_ *room, m *instance.Machine) { m.Persistent = false },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mustCreate(t, spec("vm"))
			m := w.host().domains["vm"]
			harm(w.host().room, m)
			before := *m
			_, err := w.Create(t.Context(), spec("vm"), patience)
			wantReason(t, err, instance.ReasonVanished, "alpha", "vm")
			domains, _ := w.host().snapshot(t)
			if diff := cmp.Diff(before, domains["vm"]); diff != "" {
				t.Errorf("the machine was touched (-want +got)\n%s", diff)
			}
			if err := w.host().Stop(t.Context(), *m); err != nil {
				t.Fatal(err)
			}
			w.mustCreate(t, spec("vm"))
			if m := wantOneVM(t, w.host().room, "vm"); m.UUID == before.UUID {
				t.Error("the machine was not made anew when it was off")
			}
		})
	}
}
