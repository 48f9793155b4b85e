package libvirtx_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

func TestCheckSpace(t *testing.T) {
	h, s := newHost(t, sim.Options{PoolCapacityBytes: 1 << 30})
	s.FillPool(100 << 20)
	_, err := h.CheckSpace(t.Context(), 100<<20+1)
	wantReason(t, err, instance.ReasonPoolFull)
	for _, want := range []string{"default", "104857600", "104857601"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %s in it", err, want)
		}
	}
	got, err := h.CheckSpace(t.Context(), 100<<20)
	if err != nil || got != 100<<20 {
		t.Errorf("got %d, %v, want all that is free", got, err)
	}
}

func TestCheckSpace_countsWhatWasGrantedSinceTheLastLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHost(t, sim.Options{PoolCapacityBytes: 1 << 30})
		s.FillPool(100 << 20)
		grant := func(needed, want int64, reason instance.Reason) {
			t.Helper()
			got, err := h.CheckSpace(t.Context(), needed)
			if instance.ReasonOf(err) != reason && (err != nil || reason != "") {
				t.Errorf("got %v, want %q", err, reason)
			}
			if got != want {
				t.Errorf("got %d MiB available, want %d", got>>20, want>>20)
			}
		}
		grant(60<<20, 100<<20, "")
		grant(60<<20, 40<<20, instance.ReasonPoolFull)
		grant(0, 40<<20, "")
		grant(0, 40<<20, "")
		if got := s.Calls("StoragePoolRefresh"); got != 1 {
			t.Errorf("got %d refreshes, want 1", got)
		}
		time.Sleep(5 * time.Second)
		grant(60<<20, 100<<20, "")
		s.FailMethod("StoragePoolRefresh", code(libvirt.ErrInternalError), -1)
		time.Sleep(10 * time.Second)
		grant(60<<20, 40<<20, instance.ReasonPoolFull)
		if got := s.Calls("StoragePoolRefresh"); got != 3 {
			t.Errorf("got %d refreshes, want 3", got)
		}
	})
}

func TestCheckSpace_oneRefreshForAll(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	s.SlowMethod("StoragePoolRefresh", 50*time.Millisecond)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := h.CheckSpace(t.Context(), 1); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	want := map[string]int{"StoragePoolRefresh": 1, "StoragePoolGetInfo": 20}
	got := s.CallCounts()
	if diff := cmp.Diff(want, map[string]int{
		"StoragePoolRefresh": got["StoragePoolRefresh"], "StoragePoolGetInfo": got["StoragePoolGetInfo"],
	}); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
