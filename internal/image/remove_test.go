package image

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// overlayOn adds a machine's disk.
func overlayOn(pool *memPool, base instance.Base) {
	pool.put(instance.Volume{Name: "kvm2.other.proxy-1.0a1b2c3d.root.qcow2", Format: "qcow2", BackingPath: base.Path})
}

func TestRemove_markerFirstThenBase(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	pool, img := newMemPool(testHost), imageOf(content)
	k := newKit(t, pool, &site{content: content})
	base := k.mustEnsure(t, img)
	made := len(pool.writes())
	for range 2 {
		if err := k.cache.Remove(t.Context(), testHost, img, ""); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"DeleteVolume " + keyOf(testHost, img).marker(), "DeleteVolume " + base.Volume}
	if diff := cmp.Diff(want, pool.writes()[made:]); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	wantReason(t, k.cache.Confirm(t.Context(), testHost, base), instance.ReasonVanished)
	k.mustEnsure(t, img)
	wantClean(t, pool, img, content)
}

func TestRemove_inUseIsPermanentAndKeepsTheMarker(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	pool, img := newMemPool(testHost), imageOf(content)
	k := newKit(t, pool, &site{content: content})
	base := k.mustEnsure(t, img)
	overlayOn(pool, base)
	err := k.cache.Remove(t.Context(), testHost, img, base.Identity)
	wantReason(t, err, instance.ReasonImageInUse)
	if !errors.Is(err, instance.Permanent) {
		t.Errorf("got kind %s, want Permanent", instance.ReasonOf(err).Kind())
	}
	if err := k.cache.Confirm(t.Context(), testHost, base); err != nil {
		t.Errorf("confirm: %v", err)
	}
}

// A removal that dies after the marker is gone leaves a base in use without one.
// Whoever comes next, it is marked again and never fetched anew nor swept.
func TestRemove_crashBetweenItsSteps(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	img := imageOf(content)
	for _, tt := range []struct {
		name string
		next func(t *testing.T, k *kit)
	}{
		{"ensure", func(t *testing.T, k *kit) { t.Helper(); k.mustEnsure(t, img) }},
		{"pull", func(t *testing.T, k *kit) {
			t.Helper()
			if err := k.cache.Pull(t.Context(), testHost, img); err != nil {
				t.Fatal(err)
			}
		}},
		{"remove", func(t *testing.T, k *kit) {
			t.Helper()
			wantReason(t, k.cache.Remove(t.Context(), testHost, img, ""), instance.ReasonImageInUse)
		}},
		{"sweep", func(t *testing.T, k *kit) {
			t.Helper()
			if _, err := k.cache.Status(t.Context(), testHost, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * testStall)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := newMemPool(testHost)
				first := newKit(t, pool, &site{content: content})
				base := first.mustEnsure(t, img)
				first.close(t)
				overlayOn(pool, base)
				pool.remove(keyOf(testHost, img).marker())

				s := &site{fault: status(http.StatusNotFound)}
				second := newKit(t, pool, s)
				tt.next(t, second)
				synctest.Wait()
				if err := second.cache.Confirm(t.Context(), testHost, base); err != nil {
					t.Errorf("confirm: %v", err)
				}
				if got := s.requestCount(); got != 0 {
					t.Errorf("got %d requests, want none", got)
				}
				second.close(t)
			})
		})
	}
}

// Whichever call of a removal fails, a repeat ends it: gone, or in use and marked.
func TestRemove_failureAtEachPoolCall(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	img := imageOf(content)
	for _, used := range []bool{false, true} {
		for n := 1; ; n++ {
			var hit atomic.Bool
			synctest.Test(t, func(t *testing.T) {
				pool := newMemPool(testHost)
				k := newKit(t, pool, &site{content: content})
				defer k.close(t)
				base := k.mustEnsure(t, img)
				synctest.Wait()
				if used {
					overlayOn(pool, base)
				}
				pool.plant(failAt(pool, n, false, &hit))
				_ = k.cache.Remove(t.Context(), testHost, img, "")
				synctest.Wait()
				pool.plant(nil)
				err := k.cache.Remove(t.Context(), testHost, img, "")
				if used {
					wantReason(t, err, instance.ReasonImageInUse)
					if err := k.cache.Confirm(t.Context(), testHost, base); err != nil {
						t.Errorf("call %d: confirm: %v", n, err)
					}
					return
				}
				if err != nil {
					t.Errorf("call %d: %v", n, err)
				}
				time.Sleep(5 * testStall)
				synctest.Wait()
				if got := pool.names(); len(got) != 0 {
					t.Errorf("call %d: got volumes %v, want none", n, got)
				}
			})
			if !hit.Load() {
				break
			}
		}
	}
}

// Another daemon that has marked the base again, for an overlay we did not see,
// keeps it.
func TestRemove_markedAgainMeanwhile(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	pool, img := newMemPool(testHost), imageOf(content)
	k := newKit(t, pool, &site{content: content})
	base := k.mustEnsure(t, img)
	marker := keyOf(testHost, img).marker()
	listed := false
	pool.plant(func(call, name string, _ bool) error {
		if call == "Volumes" && name == "" && !listed {
			listed = true
			pool.put(instance.Volume{Name: marker, BackingPath: base.Path})
		}
		return nil
	})
	wantReason(t, k.cache.Remove(t.Context(), testHost, img, ""), instance.ReasonImageInUse)
	if err := k.cache.Confirm(t.Context(), testHost, base); err != nil {
		t.Errorf("confirm: %v", err)
	}
}

// Removing an image that is being downloaded ends the download.
func TestRemove_endsARunningDownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := qcow2Bytes(t, testVirtual, mib)
		pool, s := newMemPool(testHost), &site{content: content}
		s.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
			if n != 2 {
				return false
			}
			w.Header().Set("Content-Length", "1048576")
			_, _ = w.Write(content[:mib/2])
			hang(r)
			return true
		}
		k := newKit(t, pool, s)
		waited := make(chan error, 1)
		go func() {
			_, err := k.ensure(t.Context(), imageOf(content))
			waited <- err
		}()
		synctest.Wait()
		if err := k.cache.Remove(t.Context(), testHost, imageOf(content), ""); err != nil {
			t.Fatal(err)
		}
		wantReason(t, <-waited, instance.ReasonVanished)
		if got := pool.names(); len(got) != 0 {
			t.Errorf("got volumes %v, want none", got)
		}
		k.close(t)
	})
}

func TestRemove_oldIdentity(t *testing.T) {
	old, changed := qcow2Bytes(t, testVirtual, mib), qcow2Bytes(t, testVirtual, 2*mib)
	pool, s := newMemPool(testHost), &site{content: old}
	k := newKit(t, pool, s)
	first := k.mustEnsure(t, imageOf(old))
	s.content = changed
	second := k.mustEnsure(t, imageOf(changed))
	if err := k.cache.Remove(t.Context(), testHost, imageOf(changed), first.Identity); err != nil {
		t.Fatal(err)
	}
	for _, name := range pool.names() {
		if strings.Contains(name, first.Identity) {
			t.Errorf("got %s, want it gone", name)
		}
	}
	if err := k.cache.Confirm(t.Context(), testHost, second); err != nil {
		t.Errorf("confirm the new one: %v", err)
	}
	wantReason(t, k.cache.Remove(t.Context(), testHost, imageOf(changed), "../x"), instance.ReasonInvalidRequest)
}
