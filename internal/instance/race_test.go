package instance_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// TestTwoDaemons_endWithOneVMOrNone lets two Services create and delete one
// instance on one host at once, every call taking a time of its own, some of
// them dying in the middle; afterwards one more Create must end in one VM, and
// one more Delete in none (C9, D4, I5).
func TestTwoDaemons_endWithOneVMOrNone(t *testing.T) {
	const rounds = 150
	for seed := range uint64(rounds) {
		for _, kills := range []bool{false, true} {
			name := fmt.Sprintf("seed %d", seed)
			if kills {
				name += " with kills"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { raceTwoDaemons(t, seed, kills) })
			})
		}
	}
}

func raceTwoDaemons(t *testing.T, seed uint64, kills bool) {
	t.Helper()
	r := newRoom()
	daemons := []*world{newWorld(t, r), newWorld(t, r)}
	var wg sync.WaitGroup
	for i, w := range daemons {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		w.setHook(erratic(rand.New(rand.NewPCG(seed, uint64(i)+100)), kills))
		for j := range 3 {
			create := random.IntN(2) == 0
			begin := time.Duration(random.IntN(50)) * time.Millisecond
			wg.Go(func() {
				<-time.After(begin)
				if err := createOrDelete(t.Context(), w, create); err != nil && instance.ReasonOf(err).Kind() != instance.Transient {
					t.Errorf("daemon %d, call %d: %v", i, j, err)
				}
			})
		}
	}
	wg.Wait()
	for _, w := range daemons {
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if domains, volumes := r.snapshot(t); len(domains) > 1 {
		t.Errorf("got domains %v and volumes %v, want one at most", domains, volumes)
	}
	last := newWorld(t, r)
	last.mustCreate(t, spec("vm"))
	wantRunning(t, r)
	if err := last.Delete(t.Context(), vmID, "uid-1"); err != nil {
		t.Error(err)
	}
	wantNothing(t, r)
}

// wantRunning is wantOneVM, except that a guest which was left running may have
// lost its seed, which it has read, to a Delete that raced.
func wantRunning(t *testing.T, r *room) {
	t.Helper()
	domains, volumes := r.snapshot(t)
	m := domains["vm"]
	own := "kvm2." + testOwner + ".vm." + m.UUID[:min(8, len(m.UUID))] + "."
	if len(domains) != 1 || m.Power != instance.PowerOn || !m.Persistent || m.Mark.Deleting || !slices.Contains(volumes, own+"root.qcow2") {
		t.Errorf("got %+v and volumes %v, want one whole VM", domains, volumes)
	}
	for _, name := range volumes {
		if !strings.HasPrefix(name, own) {
			t.Errorf("volume %s is left", name)
		}
	}
}

func createOrDelete(ctx context.Context, w *world, create bool) error {
	if create {
		_, err := w.Create(ctx, spec("vm"), time.Hour)
		return err
	}
	return w.Delete(ctx, vmID, "")
}

// erratic makes every call take up to 10 ms and, with kills, lets the daemon's
// way to the host break for good once in a while, before or after the call.
func erratic(random *rand.Rand, kills bool) hook {
	var mu sync.Mutex
	dead := false
	return func(ctx context.Context, call string) (before, after error) {
		mu.Lock()
		wait := time.Duration(random.IntN(10_000)) * time.Microsecond
		dies := kills && random.IntN(40) == 0
		lost := random.IntN(2) == 0
		wasDead := dead
		dead = dead || dies
		mu.Unlock()
		err := &instance.Error{Reason: instance.ReasonUnreachable, Op: call, Host: "alpha", Err: errors.New("killed")}
		if wasDead {
			return err, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		switch {
		case dies && lost:
			return nil, err
		case dies:
			return err, nil
		}
		return nil, nil
	}
}
