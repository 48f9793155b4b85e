package instance_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func (w *world) mustGet(t *testing.T, id string) instance.Instance {
	t.Helper()
	got, err := w.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("Get(%s) = %v", id, err)
	}
	return got
}

func TestGet_afterDeleteReturnsNotFound(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	if err := w.Delete(t.Context(), vmID, ""); err != nil {
		t.Fatal(err)
	}
	_, err := w.Get(t.Context(), vmID)
	wantReason(t, err, instance.ReasonInstanceNotFound, "alpha", "vm")
	if !errors.Is(err, instance.NotFound) {
		t.Errorf("got kind %s, want NotFound", instance.ReasonOf(err).Kind())
	}
}

// TestGet_duringDeleteStillReturnsInstance asks between any two calls of a Delete.
func TestGet_duringDeleteStillReturnsInstance(t *testing.T) {
	r := newRoom()
	w, reader := newWorld(t, r), newWorld(t, r)
	w.mustCreate(t, spec("vm"))
	var mu sync.Mutex
	asked, deleted, undefined := 0, 0, false
	w.setHook(func(ctx context.Context, call string) (before, after error) {
		mu.Lock()
		defer mu.Unlock()
		if undefined {
			return nil, nil
		}
		undefined = call == "Undefine"
		deleted += strings.Count(call, "DeleteVolume")
		asked++
		got, err := reader.Get(ctx, vmID)
		if err != nil {
			t.Errorf("before %s: %v", call, err)
		}
		if (call == "Stop" || undefined) && got.StateReason != "being deleted" {
			t.Errorf("before %s: got reason %q, want being deleted", call, got.StateReason)
		}
		return nil, nil
	})
	if err := w.Delete(t.Context(), vmID, ""); err != nil {
		t.Fatal(err)
	}
	if !undefined || deleted < 2 {
		t.Errorf("asked %d times, %d deletes of volumes before it was undefined (%v), want both", asked, deleted, undefined)
	}
}

func TestGet_backendBusyIsTransientNeverNotFound(t *testing.T) {
	for _, r := range []instance.Reason{
		instance.ReasonUnreachable, instance.ReasonTimeout, instance.ReasonLibvirtUnavailable, instance.ReasonLibvirtError, instance.ReasonHostBusy,
	} {
		w := newWorld(t)
		w.setHook(func(context.Context, string) (before, after error) {
			return &instance.Error{Reason: r, Op: "read domain", Host: "alpha"}, nil
		})
		_, err := w.Get(t.Context(), vmID)
		wantReason(t, err, r, "alpha", "vm")
		if !errors.Is(err, instance.Transient) {
			t.Errorf("%s: got kind %s, want Transient", r, instance.ReasonOf(err).Kind())
		}
	}
}

func address(s string, source instance.AddressSource) instance.Address {
	return instance.Address{Addr: netip.MustParseAddr(s), Source: source, MAC: "02:00:00:00:00:01"}
}

func TestGet_runningWithoutIPIsProvisioning(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	w.host().addresses = []instance.Address{address("fe80::1", instance.SourceAgent), address("2001:db8::1", instance.SourceAgent)}
	got := w.mustGet(t, vmID)
	if got.State != instance.Provisioning || got.IP.IsValid() || got.StateReason == "" {
		t.Errorf("got %+v, want Provisioning without an IP, and why", got)
	}
	if len(got.Addresses) != 1 {
		t.Errorf("got addresses %v, want the global one", got.Addresses)
	}
}

func TestGet_runningWithIPIsRunning(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	w.host().addresses = []instance.Address{address("10.0.0.9", instance.SourceLease)}
	got := w.mustGet(t, vmID)
	if got.State != instance.Running || got.IP != netip.MustParseAddr("10.0.0.9") || got.StateReason != "" {
		t.Errorf("got %+v, want Running at 10.0.0.9", got)
	}
	if repeat := w.mustCreate(t, spec("vm")); repeat.Instance.State != instance.Running {
		t.Errorf("got %s from a repeated create, want Running", repeat.Instance.State)
	}
}

func TestGet_agentPreferredOverARP(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	w.host().addresses = []instance.Address{
		address("10.0.0.3", instance.SourceARP), address("10.0.0.2", instance.SourceLease), address("10.0.0.1", instance.SourceAgent),
	}
	if got := w.mustGet(t, vmID); got.IP != netip.MustParseAddr("10.0.0.1") {
		t.Errorf("got IP %s, want the agent's", got.IP)
	}
}

// TestGet_addressErrorIsProvisioning: an address call that fails is no answer.
func TestGet_addressErrorIsProvisioning(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	w.host().addresses = nil
	if got := w.mustGet(t, vmID); got.State != instance.Provisioning {
		t.Errorf("got state %s, want Provisioning", got.State)
	}
}

func TestGet_readsUIDAndCreatedAtFromBackend(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	created := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	w.host().markOf("vm", func(m *instance.Mark) {
		m.UID, m.CreatedAt, m.Tags = "uid-9", created, map[string]string{"a": "b"}
	})
	got := w.mustGet(t, vmID)
	if got.UID != "uid-9" || !got.CreatedAt.Equal(created) || got.Tags["a"] != "b" {
		t.Errorf("got %+v, want what is written on the host", got)
	}
}

func TestGet_malformedIDIsPermanent(t *testing.T) {
	_, err := newWorld(t).Get(t.Context(), "hosts/alpha/domains/UPPER")
	wantReason(t, err, instance.ReasonMalformedID, "", "")
	if !errors.Is(err, instance.Permanent) {
		t.Errorf("got kind %s, want Permanent", instance.ReasonOf(err).Kind())
	}
}

func TestGet_unconfiguredHostIsPermanent(t *testing.T) {
	_, err := newWorld(t).Get(t.Context(), "hosts/nowhere/domains/vm")
	wantReason(t, err, instance.ReasonHostNotConfigured, "nowhere", "vm")
	if !errors.Is(err, instance.Permanent) {
		t.Errorf("got kind %s, want Permanent", instance.ReasonOf(err).Kind())
	}
}

func TestConsole(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	got, err := w.Console(t.Context(), vmID, 0)
	if err != nil || len(got) != 0 {
		t.Errorf("Console = %q, %v, want nothing yet", got, err)
	}
	r := w.host().room
	name := "kvm2.tester.vm." + r.domains["vm"].UUID[:8] + ".console.log"
	r.volumes[name] = &fakeVolume{content: []byte("Linux version\nlogin: ")}
	if got, err := w.Console(t.Context(), vmID, 7); err != nil || string(got) != "login: "[0:7] {
		t.Errorf("Console = %q, %v, want the end of it", got, err)
	}
	_, err = w.Console(t.Context(), "hosts/alpha/domains/none", 0)
	wantReason(t, err, instance.ReasonInstanceNotFound, "alpha", "none")
	r.domains["vm"].Mark = nil
	_, err = w.Console(t.Context(), vmID, 0)
	wantReason(t, err, instance.ReasonInstanceNotFound, "alpha", "vm")
}

func TestDryRun(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare func(t *testing.T, w *world)
		want    instance.Plan
		reason  instance.Reason
	}{
		{"absent", func(*testing.T, *world) {}, instance.Plan{
			Host: "alpha", NeededBytes: 10<<30 + seedRoom + imageBytes, AvailableBytes: 1 << 40, ImageState: instance.ImageAbsent,
		}, ""},
		{"image there", func(t *testing.T, w *world) {
			t.Helper()
			w.mustCreate(t, spec("other"))
		}, instance.Plan{
			Host: "alpha", NeededBytes: 10<<30 + seedRoom, AvailableBytes: 1 << 40, ImageState: instance.ImageReady,
		}, ""},
		{"exists", func(t *testing.T, w *world) {
			t.Helper()
			w.mustCreate(t, spec("vm"))
		}, instance.Plan{
			Host: "alpha", AvailableBytes: 1 << 40, ImageState: instance.ImageReady,
		}, ""},
		{"no room", func(_ *testing.T, w *world) { w.host().available = 1 << 30 }, instance.Plan{}, instance.ReasonPoolFull},
		{"maintenance", func(_ *testing.T, w *world) { w.host().maintenance = true }, instance.Plan{}, instance.ReasonHostInMaintenance},
		{"other uid", func(t *testing.T, w *world) {
			t.Helper()
			w.mustCreate(t, spec("vm"))
			w.host().markOf("vm", func(m *instance.Mark) { m.UID = "uid-2" })
		}, instance.Plan{}, instance.ReasonUIDMismatch},
		{"foreign", func(t *testing.T, w *world) {
			t.Helper()
			w.mustCreate(t, spec("vm"))
			w.host().domains["vm"].Mark = nil
		}, instance.Plan{}, instance.ReasonNameTaken},
		{"firmware missing", func(_ *testing.T, w *world) {
			w.host().preflight = &instance.Error{Reason: instance.ReasonFirmwareMissing, Host: "alpha"}
		}, instance.Plan{}, instance.ReasonFirmwareMissing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			tt.prepare(t, w)
			domains, volumes := w.host().snapshot(t)
			got, err := w.DryRun(t.Context(), spec("vm"))
			if tt.reason != "" {
				wantReason(t, err, tt.reason, "alpha", "vm")
			} else if err != nil {
				t.Fatal(err)
			} else if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("DryRun (-want +got)\n%s", diff)
			}
			domainsAfter, volumesAfter := w.host().snapshot(t)
			if len(domains) != len(domainsAfter) || !cmp.Equal(volumes, volumesAfter) || w.images.downloads.Load() > 1 {
				t.Error("a dry run changed the host")
			}
		})
	}
}

func TestImageOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newRoom(), newRoom())
		calls := make(chan string, 100)
		w.images.hook = func(_ context.Context, call string) (before, after error) {
			calls <- call
			return nil, nil
		}
		rows, err := w.Images(t.Context(), "")
		if err != nil || len(rows) != 4 || rows[0].Host != "alpha" || rows[0].Image != "debian" || rows[3].Host != "beta" {
			t.Errorf("Images = %v, %v, want two images on each of two hosts in order", rows, err)
		}
		if rows, err := w.Images(t.Context(), "beta"); err != nil || len(rows) != 2 {
			t.Errorf("Images(beta) = %v, %v, want two rows", rows, err)
		}
		if err := w.PullImage(t.Context(), "tiny", "beta"); err != nil {
			t.Error(err)
		}
		if err := w.RemoveImage(t.Context(), "retired", "alpha", "0123456789ab"); err != nil {
			t.Error(err)
		}
		close(calls)
		var got []string
		for c := range calls {
			if c != "Status" {
				got = append(got, c)
			}
		}
		if diff := cmp.Diff([]string{"Pull beta", "Remove alpha retired 0123456789ab"}, got); diff != "" {
			t.Errorf("calls (-want +got)\n%s", diff)
		}
		for name, err := range map[string]error{
			"pull":   w.PullImage(t.Context(), "none", ""),
			"remove": w.RemoveImage(t.Context(), "none", "", ""),
		} {
			if instance.ReasonOf(err) != instance.ReasonUnknownImage {
				t.Errorf("%s: got %v, want UnknownImage", name, err)
			}
		}
		if err := w.PullImage(t.Context(), "tiny", "nowhere"); instance.ReasonOf(err) != instance.ReasonHostNotConfigured {
			t.Errorf("got %v, want HostNotConfigured", err)
		}
	})
}
