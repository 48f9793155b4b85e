package image

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// Whichever pool call fails, before or after its effect, the next Ensure
// succeeds, and after the sweep there is exactly one marked base.
func TestEnsureImage_failureAtEachPoolCall(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	img := imageOf(content)
	for after, atLeast := range map[bool]int{false: 8, true: 3} {
		for n := 1; ; n++ {
			var hit atomic.Bool
			synctest.Test(t, func(t *testing.T) {
				pool := newMemPool(testHost)
				k := newKit(t, pool, &site{content: content})
				pool.plant(failAt(pool, n, after, &hit))
				_, err := k.ensure(t.Context(), img)
				if hit.Load() && err != nil && instance.ReasonOf(err).Kind() != instance.Transient {
					t.Errorf("call %d (after %v): got %v, want Transient", n, after, err)
				}
				pool.plant(nil)
				k.mustEnsure(t, img)
				time.Sleep(5 * testStall)
				synctest.Wait()
				wantClean(t, pool, img, content)
				k.close(t)
			})
			if !hit.Load() {
				if n <= atLeast {
					t.Fatalf("got %d calls, want at least %d", n-1, atLeast)
				}
				break
			}
		}
	}
}

// failAt fails the nth call of those that have such a moment, once.
func failAt(pool *memPool, n int, after bool, hit *atomic.Bool) func(call, name string, done bool) error {
	var mu sync.Mutex
	count := 0
	return func(call, _ string, done bool) error {
		mu.Lock()
		defer mu.Unlock()
		if done != after {
			return nil
		}
		count++
		if count != n {
			return nil
		}
		hit.Store(true)
		return pool.fail(instance.ReasonUnreachable, call, errPlanted)
	}
}

// Two daemons that download at once end with one base and its marker.
func TestEnsureImage_twoCachesOnOnePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := qcow2Bytes(t, testVirtual, mib)
		pool, img := newMemPool(testHost), imageOf(content)
		pool.plant(func(_, _ string, done bool) error {
			if !done {
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		})
		kits := []*kit{newKit(t, pool, &site{content: content}), newKit(t, pool, &site{content: content})}
		bases := make([]instance.Base, len(kits))
		var callers sync.WaitGroup
		for i, k := range kits {
			callers.Go(func() { bases[i] = k.mustEnsure(t, img) })
		}
		callers.Wait()
		if diff := cmp.Diff(bases[0], bases[1]); diff != "" {
			t.Errorf("bases differ:\n%s", diff)
		}
		if got := pool.writes(); !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "DeleteVolume") }) {
			t.Errorf("got writes %v, want the race to have had a loser", got)
		}
		wantClean(t, pool, img, content)
		for _, k := range kits {
			k.close(t)
		}
	})
}

func TestClose_removesPartialAndAnswersWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := qcow2Bytes(t, testVirtual, 3*mib)
		pool, s := newMemPool(testHost), &site{content: content}
		s.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				return false
			}
			w.Header().Set("Content-Length", "3145728")
			_, _ = w.Write(content[:mib])
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
		if got := len(pool.names()); got != 1 {
			t.Fatalf("got volumes %v, want the partial", pool.names())
		}
		k.close(t)
		wantReason(t, <-waited, instance.ReasonShuttingDown)
		if got := pool.names(); len(got) != 0 {
			t.Errorf("got volumes %v, want none", got)
		}
		_, err := k.ensure(t.Context(), imageOf(content))
		wantReason(t, err, instance.ReasonShuttingDown)
	})
}

// A pool that does not answer cannot keep Close past its context.
func TestClose_endsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := qcow2Bytes(t, testVirtual, mib)
		pool, release := newMemPool(testHost), make(chan struct{})
		k := newKit(t, pool, &site{content: content})
		pool.plant(func(call, _ string, done bool) error {
			if call == "Upload" && done {
				<-release
			}
			return nil
		})
		go func() { _, _ = k.ensure(t.Context(), imageOf(content)) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		// Not with the context: an end at the same time is one that Close may see.
		time.AfterFunc(6*time.Second, func() { close(release) })
		if err := k.cache.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want DeadlineExceeded", err)
		}
	})
}

// TestEnsureImage_unmarkedBaseGoesWhileItIsWatched: a removal that was between
// its steps went on; what it took is not marked.
func TestEnsureImage_unmarkedBaseGoesWhileItIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := qcow2Bytes(t, testVirtual, mib)
		pool, img := newMemPool(testHost), imageOf(content)
		k := newKit(t, pool, &site{content: content})
		base := k.mustEnsure(t, img)
		overlayOn(pool, base)
		if err := pool.DeleteVolume(t.Context(), keyOf(testHost, img).marker()); err != nil {
			t.Fatal(err)
		}
		gone := time.AfterFunc(settleTime/2, func() {
			_ = pool.DeleteVolume(context.WithoutCancel(t.Context()), base.Volume)
			_ = pool.DeleteVolume(context.WithoutCancel(t.Context()), "kvm2.other.proxy-1.0a1b2c3d.root.qcow2")
		})
		defer gone.Stop()
		if again := k.mustEnsure(t, img); again.Volume == base.Volume {
			t.Errorf("got the base %s that is gone", again.Volume)
		}
		k.close(t)
		wantClean(t, pool, img, content)
	})
}
