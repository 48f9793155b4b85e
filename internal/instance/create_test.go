package instance_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func TestCreate_makesTheInstance(t *testing.T) {
	w := newWorld(t)
	got := w.mustCreate(t, spec("vm"))
	want := instance.Created{Made: true, Instance: instance.Instance{
		ID: instance.ID{Host: "alpha", Name: "vm"}, UID: "uid-1", Placement: "alpha", Image: "debian", Size: "small",
		State: instance.Provisioning, StateReason: "no answer yet from agent, lease or ARP", Tags: map[string]string{"team": "red"},
	}}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(instance.Instance{}.IP),
		cmpopts.IgnoreFields(instance.Instance{}, "CreatedAt")); diff != "" {
		t.Errorf("Create (-want +got)\n%s", diff)
	}
	if age := time.Since(got.Instance.CreatedAt); age < 0 || age > time.Minute || got.Instance.CreatedAt.Location() != time.UTC {
		t.Errorf("got createdAt %s, want now in UTC", got.Instance.CreatedAt)
	}
	m := wantOneVM(t, w.host().room, "vm")
	if got := w.host().volumes[m.Overlay]; got.BackingPath != "/pool/"+baseVolume || got.CapacityBytes != 10<<30 {
		t.Errorf("got overlay %+v, want 10 GiB over the base", got.Volume)
	}
	if w.host().fresh[m.UUID] != 1 {
		t.Error("the first start was not with fresh NVRAM")
	}
}

func TestCreate_diskAsLargeAsImage(t *testing.T) {
	w := newWorld(t)
	s := spec("vm")
	s.Size = "asimage"
	w.mustCreate(t, s)
	m := wantOneVM(t, w.host().room, "vm")
	if got := w.host().volumes[m.Overlay].CapacityBytes; got != baseBytes {
		t.Errorf("got a disk of %d bytes, want the image's %d", got, int64(baseBytes))
	}
}

func TestCreate_returnsOnlyWhenRunning(t *testing.T) {
	for _, tt := range []struct {
		name    string
		onStart func(*instance.Machine)
		want    instance.Reason
		words   string
	}{
		{"paused right away", func(m *instance.Machine) {
			m.Power, m.PowerReason = instance.PowerPaused, "paused: I/O error"
		}, instance.ReasonDomainPaused, "paused: I/O error"},
		{"off right away", func(m *instance.Machine) {
			m.Power, m.PowerReason = instance.PowerOff, "crashed"
		}, instance.ReasonStartFailed, "crashed"},
		{"undefined meanwhile", func(m *instance.Machine) { m.Persistent = false }, instance.ReasonCreateCancelled, "delete"},
		{"marked meanwhile", func(m *instance.Machine) {
			mark := *m.Mark
			mark.Deleting = true
			m.Mark = &mark
		}, instance.ReasonCreateCancelled, "delete"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.host().onStart = tt.onStart
			_, err := w.Create(t.Context(), spec("vm"), patience)
			wantReason(t, err, tt.want, "alpha", "vm")
			if !strings.Contains(err.Error(), tt.words) {
				t.Errorf("error %q does not say %q", err, tt.words)
			}
		})
	}
}

func TestCreate_waitsForAHostThatDoesNotSayYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host().onStart = func(m *instance.Machine) {
			m.Power = instance.PowerUnknown
			time.AfterFunc(time.Second, func() {
				w.host().mu.Lock()
				defer w.host().mu.Unlock()
				m.Power = instance.PowerOn
			})
		}
		w.mustCreate(t, spec("vm"))
		wantOneVM(t, w.host().room, "vm")
	})
}

func TestCreate_rejectsUnknownPlacement(t *testing.T) {
	w := newWorld(t, newRoom(), newRoom())
	for _, tt := range []struct {
		name   string
		change func(*instance.Spec)
		want   instance.Reason
		known  string
	}{
		{"placement", func(s *instance.Spec) { s.Placement = "nowhere" }, instance.ReasonUnknownPlacement, "alpha, beta"},
		{"image", func(s *instance.Spec) { s.Image = "windows" }, instance.ReasonUnknownImage, "debian, tiny"},
		{"size", func(s *instance.Spec) { s.Size = "huge" }, instance.ReasonUnknownSize, "asimage, small"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := spec("vm")
			tt.change(&s)
			_, err := w.Create(t.Context(), s, patience)
			wantReason(t, err, tt.want, "", "vm")
			if !errors.Is(err, instance.Permanent) || !strings.Contains(err.Error(), tt.known) {
				t.Errorf("got %v, want it Permanent and naming %s", err, tt.known)
			}
			if strings.Contains(err.Error(), "nowhere") || strings.Contains(err.Error(), "windows") || strings.Contains(err.Error(), "huge") {
				t.Errorf("got %v: it repeats a value of the request", err)
			}
		})
	}
	if got := w.host().calls.Load(); got != 0 {
		t.Errorf("got %d host calls, want none", got)
	}
}

func TestCreate_poolOutOfSpaceIsQuotaExceeded(t *testing.T) {
	w := newWorld(t)
	needed := int64(10<<30 + seedRoom + imageBytes)
	w.host().available = needed - 1
	_, err := w.Create(t.Context(), spec("vm"), patience)
	wantReason(t, err, instance.ReasonPoolFull, "alpha", "vm")
	if !errors.Is(err, instance.QuotaExceeded) {
		t.Errorf("got kind %s, want QuotaExceeded", instance.ReasonOf(err).Kind())
	}
	wantNothing(t, w.host().room)
	w.host().available = needed
	w.mustCreate(t, spec("vm"))
}

// TestCreate_outOfSpaceMidwayLeavesNothing: running out in a transfer.
func TestCreate_outOfSpaceMidwayLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.setHook(func(_ context.Context, call string) (before, after error) {
		if call == "Upload" {
			return &instance.Error{Reason: instance.ReasonPoolFull, Op: "upload volume", Host: "alpha"}, nil
		}
		return nil, nil
	})
	_, err := w.Create(t.Context(), spec("vm"), patience)
	wantReason(t, err, instance.ReasonPoolFull, "alpha", "vm")
	wantNothing(t, w.host().room)
}

func TestCreate_libvirtNotFoundIsTransientNotNotFound(t *testing.T) {
	for _, call := range []string{"Preflight", "Ensure", "CreateVolume", "Upload", "Confirm", "Define", "Start", "Read", "Volume"} {
		t.Run(call, func(t *testing.T) {
			w := newWorld(t)
			w.setHook(func(_ context.Context, c string) (before, after error) {
				if c == call {
					return &instance.Error{Reason: instance.ReasonInstanceNotFound, Op: call, Host: "alpha"}, nil
				}
				return nil, nil
			})
			_, err := w.Create(t.Context(), spec("vm"), patience)
			wantReason(t, err, instance.ReasonVanished, "alpha", "vm")
			if errors.Is(err, instance.NotFound) || !errors.Is(err, instance.Transient) {
				t.Errorf("got kind %s, want Transient", instance.ReasonOf(err).Kind())
			}
		})
	}
}

func TestCreate_startsOverWhenTheImageGoes(t *testing.T) {
	w := newWorld(t)
	w.images.confirmFails.Store(2)
	w.mustCreate(t, spec("vm"))
	wantOneVM(t, w.host().room, "vm")

	w.images.confirmFails.Store(1000)
	_, err := w.Create(t.Context(), spec("vm2"), patience)
	wantReason(t, err, instance.ReasonVanished, "alpha", "vm2")
	wantOneVM(t, w.host().room, "vm")
}

func TestCreate_cloudInitSentinelNeverLoggedOrInErrors(t *testing.T) {
	var shown strings.Builder
	for n := int64(1); ; n++ {
		w := newWorld(t)
		h, calls := failAt(n, false, instance.ReasonLibvirtError)
		w.setHook(h)
		ctx, trail := instance.WithTrail(t.Context())
		_, err := w.Create(ctx, spec("vm"), patience)
		closeNow(w.Service)
		step, warnings := trail.Read()
		shown.WriteString(w.log.String() + step + strings.Join(warnings, " "))
		if err != nil {
			shown.WriteString(err.Error())
		}
		if calls.Load() < n {
			if got := w.images.userData.Load(); got != testUserData {
				t.Fatalf("got user data %q in the seed, want it byte for byte", got)
			}
			break
		}
	}
	s := spec("Not A Label")
	s.Placement = testUserData
	_, err := newWorld(t).Create(t.Context(), s, patience)
	shown.WriteString(err.Error())
	s.Name = "vm"
	_, err = newWorld(t).Create(t.Context(), s, patience)
	shown.WriteString(err.Error())
	if strings.Contains(shown.String(), "sentinel") {
		t.Error("user data came out")
	}
}

func TestCreate_maintenanceRefusesNewOnly(t *testing.T) {
	w := newWorld(t)
	w.host().maintenance = true
	_, err := w.Create(t.Context(), spec("vm"), patience)
	wantReason(t, err, instance.ReasonHostInMaintenance, "alpha", "vm")
	if got := w.images.downloads.Load(); got != 0 {
		t.Errorf("got %d downloads for a refused create", got)
	}
}

func TestCreate_preflightStopsBeforeAnythingIsMade(t *testing.T) {
	w := newWorld(t)
	w.host().preflight = &instance.Error{Reason: instance.ReasonNetworkNotActive, Op: "check host", Host: "alpha"}
	_, err := w.Create(t.Context(), spec("vm"), patience)
	wantReason(t, err, instance.ReasonNetworkNotActive, "alpha", "vm")
	wantNothing(t, w.host().room)
}
