package image

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// Daemons start, are killed and race on one pool, sources and pool fail at
// random; in the end one Ensure and the sweep leave exactly one whole, marked base.
func TestEnsureImage_randomFaults(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	img := imageOf(content)
	for seed := range uint64(30) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dice := &dice{rand: rand.New(rand.NewPCG(seed, 1))}
				pool, s := newMemPool(testHost), &site{content: content, etag: `"a"`}
				s.fault = func(_ int, w http.ResponseWriter, r *http.Request) bool { return dice.badAnswer(s, w, r) }
				pool.plant(func(call, _ string, _ bool) error {
					time.Sleep(dice.upTo(50 * time.Millisecond))
					if dice.oneIn(8) {
						return pool.fail(instance.ReasonUnreachable, call, errPlanted)
					}
					return nil
				})
				var daemons sync.WaitGroup
				for range 4 {
					daemons.Go(func() { liveAndDie(t, dice, pool, s, img) })
				}
				daemons.Wait()

				pool.plant(nil)
				s.fault = nil
				last := newKit(t, pool, s)
				last.mustEnsure(t, img)
				time.Sleep(6 * testStall)
				synctest.Wait()
				wantClean(t, pool, img, content)
				last.close(t)
			})
		})
	}
}

// liveAndDie is one daemon: a few requests, some of which leave early or remove
// the image, then an end that may give it no time to clean up.
func liveAndDie(t *testing.T, dice *dice, pool *memPool, s *site, img instance.Image) {
	t.Helper()
	k := newKit(t, pool, s)
	var requests sync.WaitGroup
	for range 3 {
		requests.Go(func() {
			time.Sleep(dice.upTo(2 * time.Second))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second+dice.upTo(time.Minute))
			defer cancel()
			if dice.oneIn(6) {
				_ = k.cache.Remove(ctx, testHost, img, "")
				return
			}
			base, err := k.ensure(ctx, img)
			if err == nil && base.VirtualBytes != testVirtual {
				t.Errorf("got %+v from a success", base)
			}
		})
	}
	if dice.oneIn(2) {
		time.Sleep(dice.upTo(3 * time.Second))
	} else {
		requests.Wait()
	}
	ctx, kill := context.WithCancel(t.Context())
	if dice.oneIn(2) {
		kill()
	}
	_ = k.cache.Close(ctx)
	kill()
	requests.Wait()
}

// dice is chance that many may throw.
type dice struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func (d *dice) oneIn(n int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rand.IntN(n) == 0
}

func (d *dice) upTo(limit time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.rand.Int64N(int64(limit)))
}

// badAnswer answers some requests in one of the ways that mirrors have.
func (d *dice) badAnswer(s *site, w http.ResponseWriter, r *http.Request) bool {
	d.mu.Lock()
	throw, at := d.rand.IntN(8), d.rand.Int64N(mib)
	d.mu.Unlock()
	switch throw {
	case 0:
		w.WriteHeader(http.StatusServiceUnavailable)
	case 1:
		s.serve(w, r, at)
	case 2:
		hang(r)
	case 3:
		r.Header.Del("Range")
		s.serve(w, r, at)
	default:
		return false
	}
	return true
}
