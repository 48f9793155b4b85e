package instance

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

func TestKeyLock_oneAfterTheOtherInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l keyLock
		key := ID{"h", "n"}
		unlock, err := l.lock(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		var order []int
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				unlock, err := l.lock(t.Context(), key)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				unlock()
			})
			synctest.Wait()
		}
		other, err := l.lock(t.Context(), ID{"h", "other"})
		if err != nil {
			t.Fatal(err)
		}
		other()
		if len(order) > 0 {
			t.Errorf("got %v beside the first, want everybody to wait for it", order)
		}
		unlock()
		wg.Wait()
		for i, got := range order {
			if got != i {
				t.Fatalf("got order %v, want that of arrival", order)
			}
		}
		if len(l.keys) != 0 {
			t.Errorf("got %d keys remembered, want none", len(l.keys))
		}
	})
}

func TestKeyLock_leavesWithItsCaller(t *testing.T) {
	var l keyLock
	key := ID{"h", "n"}
	unlock, err := l.lock(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := l.lock(ctx, key); !errors.Is(err, gone) {
		t.Errorf("got %v, want the cause", err)
	}
	unlock()
	if len(l.keys) != 0 {
		t.Errorf("got %d keys remembered, want none", len(l.keys))
	}
}

func TestVolumeNames_prefixOfOneNameOnly(t *testing.T) {
	got := namesOf("own", "vm", "ABCDEF01-2345-4678-8abc-def012345678")
	if want := "kvm2.own.vm.abcdef01.root.qcow2"; got.overlay != want {
		t.Errorf("got overlay %s, want %s", got.overlay, want)
	}
	if got := namesOf("own", "vm", "x").overlay; got != "kvm2.own.vm.x.root.qcow2" {
		t.Errorf("got overlay %s of a short UUID", got)
	}
}
