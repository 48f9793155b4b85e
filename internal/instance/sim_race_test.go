package instance_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

// kill ends the daemon as SIGKILL would: its connections go first, so nothing
// that it begins on its way out reaches a host.
func (d *daemon) kill() {
	for _, stop := range d.stops {
		stop()
	}
	d.stops = nil
}

// TestSimTwoDaemons_endWithOneVMOrNone is TestTwoDaemons_endWithOneVMOrNone on
// the simulated libvirt, every call taking a time of its own, the daemons being
// killed in the middle.
func TestSimTwoDaemons_endWithOneVMOrNone(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { raceSimDaemons(t, seed) })
		})
	}
}

func raceSimDaemons(t *testing.T, seed uint64) {
	t.Helper()
	s := sim.NewHost(sim.Options{Name: "alpha"})
	first := newDaemon(t, s)
	first.mustCreate(t, spec("vm"))
	first.stop()

	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 1))
	upTo := func(d time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(random.Int64N(int64(d)))
	}
	s.OnCall(func(sim.Call) error {
		<-time.After(upTo(20 * time.Millisecond))
		return nil
	})
	var wg sync.WaitGroup
	for i := range 2 {
		d := newDaemon(t, s)
		for j := range 3 {
			create, begin := upTo(2) == 0, upTo(300*time.Millisecond)
			wg.Go(func() {
				<-time.After(begin)
				var err error
				if create {
					_, err = d.Create(t.Context(), spec("vm"), time.Hour)
				} else {
					err = d.Delete(t.Context(), vmID, "")
				}
				if err != nil && instance.ReasonOf(err).Kind() != instance.Transient {
					t.Errorf("daemon %d, call %d: %v", i, j, err)
				}
			})
		}
		if upTo(2) == 0 {
			after := upTo(time.Second)
			wg.Go(func() {
				<-time.After(after)
				d.kill()
			})
		}
	}
	wg.Wait()
	s.OnCall(nil)
	last := newDaemon(t, s)
	last.mustCreate(t, spec("vm"))
	vm, _ := s.Domain("vm")
	_, rooted := s.Volume("kvm2." + testOwner + ".vm." + vm.UUID[:min(8, len(vm.UUID))] + ".root.qcow2")
	if !vm.Running || !vm.Persistent || !rooted || len(s.Domains()) != 1 {
		t.Errorf("got domains %+v, root disk there %v, want one whole VM", s.Domains(), rooted)
	}
	if err := last.Delete(t.Context(), vmID, "uid-1"); err != nil {
		t.Error(err)
	}
	wantNoSimVM(t, s)
	last.stop()
}
