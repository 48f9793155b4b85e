package instance_test

import (
	"errors"
	"maps"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

func answer(number libvirt.ErrorNumber) error {
	return libvirt.Error{Code: uint32(number), Message: "injected"}
}

// simFaults are the ways in which the n-th call to a libvirt host goes wrong.
var simFaults = map[string]func(s *sim.Host, n int){
	"refused":       func(s *sim.Host, n int) { s.FailCall(n, answer(libvirt.ErrSystemError)) },
	"fault":         func(s *sim.Host, n int) { s.FailCall(n, answer(libvirt.ErrInternalError)) },
	"reply lost":    func(s *sim.Host, n int) { s.LoseReply(n) },
	"not delivered": func(s *sim.Host, n int) { s.Inject(sim.Fault{Skip: n - 1, Drop: true}) },
	"host dies":     func(s *sim.Host, n int) { s.Inject(sim.Fault{Skip: n - 1, Drop: true, Times: -1}) },
	"host dies after": func(s *sim.Host, n int) {
		s.Inject(sim.Fault{Skip: n - 1, After: true, Drop: true})
		s.Inject(sim.Fault{Skip: n, Drop: true, Times: -1})
	},
}

// simStates are what a crash can leave on a host, from a whole instance on.
func simStates() map[string]func(t *testing.T, d *daemon, s *sim.Host) {
	from := func(change func(t *testing.T, s *sim.Host, vm sim.DomainInfo)) func(*testing.T, *daemon, *sim.Host) {
		return func(t *testing.T, d *daemon, s *sim.Host) {
			t.Helper()
			d.mustCreate(t, spec("vm"))
			vm, _ := s.Domain("vm")
			change(t, s, vm)
		}
	}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	volume := func(vm sim.DomainInfo, what string) string { return "kvm2.tester.vm." + vm.UUID[:8] + "." + what }
	deleteUntil := func(n int) func(*testing.T, *daemon, *sim.Host) {
		return func(t *testing.T, d *daemon, s *sim.Host) {
			t.Helper()
			d.mustCreate(t, spec("vm"))
			s.Inject(sim.Fault{Skip: n, Drop: true, Times: -1})
			_ = d.Delete(t.Context(), vmID, "")
			s.ClearFaults()
		}
	}
	return map[string]func(t *testing.T, d *daemon, s *sim.Host){
		"nothing, image there": func(t *testing.T, d *daemon, s *sim.Host) {
			t.Helper()
			d.mustCreate(t, spec("vm"))
			must(t, d.Delete(t.Context(), vmID, ""))
			wantNoSimVM(t, s)
		},
		"nothing, no image": func(*testing.T, *daemon, *sim.Host) {},
		"volumes only": func(_ *testing.T, _ *daemon, s *sim.Host) {
			for _, what := range []string{"root.qcow2", "seed.iso", "console.log"} {
				s.AddVolume("kvm2.tester.vm.0badcafe."+what, []byte("x"))
			}
		},
		"running": from(func(*testing.T, *sim.Host, sim.DomainInfo) {}),
		"off":     from(func(t *testing.T, s *sim.Host, _ sim.DomainInfo) { t.Helper(); must(t, s.PowerOff("vm")) }),
		"off, overlay gone": from(func(t *testing.T, s *sim.Host, vm sim.DomainInfo) {
			t.Helper()
			must(t, s.PowerOff("vm"))
			must(t, s.RemoveVolume(volume(vm, "root.qcow2")))
		}),
		"off, seed gone": from(func(t *testing.T, s *sim.Host, vm sim.DomainInfo) {
			t.Helper()
			must(t, s.PowerOff("vm"))
			must(t, s.RemoveVolume(volume(vm, "seed.iso")))
		}),
		"running, overlay gone": from(func(t *testing.T, s *sim.Host, vm sim.DomainInfo) {
			t.Helper()
			must(t, s.RemoveVolume(volume(vm, "root.qcow2")))
		}),
		"off, with libvirt's own records": from(func(t *testing.T, s *sim.Host, _ sim.DomainInfo) {
			t.Helper()
			must(t, s.PowerOff("vm"))
			must(t, s.SetLeftovers("vm", sim.Leftovers{ManagedSave: true, Snapshot: true, Checkpoint: true}))
		}),
		"domain undefined by hand": from(func(t *testing.T, s *sim.Host, _ sim.DomainInfo) {
			t.Helper()
			must(t, s.PowerOff("vm"))
			must(t, undefineByHand(t, s))
		}),
		"delete, marked":    deleteUntil(4),
		"delete, destroyed": deleteUntil(5),
		"delete, midway":    deleteUntil(8),
		"delete, late":      deleteUntil(11),
	}
}

// undefineByHand takes the domain away as an administrator would, and leaves its
// volumes: the console's log among them, which libvirt has not listed yet.
func undefineByHand(t *testing.T, s *sim.Host) error {
	t.Helper()
	conn, err := s.Connect(t.Context())
	if err != nil {
		return err
	}
	dom, err := conn.DomainLookupByName(t.Context(), "vm")
	if err != nil {
		return err
	}
	return errors.Join(conn.DomainUndefine(t.Context(), dom, libvirt.DomainUndefineNvram), conn.Close())
}

// TestSimCreate_resumesFromEveryFailingCall walks a create over the simulated
// libvirt: each call fails in each way, from each state; the same call again
// ends in one running VM.
func TestSimCreate_resumesFromEveryFailingCall(t *testing.T) {
	states := simStates()
	// Nothing is resumed there: TestCreate_whatRunsIsKept.
	delete(states, "running, overlay gone")
	walkSim(t, states, func(t *testing.T, d *daemon) error {
		t.Helper()
		_, err := d.Create(t.Context(), spec("vm"), patience)
		return err
	}, func(t *testing.T, d *daemon, s *sim.Host) {
		t.Helper()
		got := d.mustCreate(t, spec("vm"))
		if want := (instance.ID{Host: "alpha", Name: "vm"}); got.Instance.ID != want || got.Instance.UID != "uid-1" {
			t.Errorf("got %+v, want ID %s and uid-1", got.Instance, want)
		}
		wantOneSimVM(t, s)
	})
}

// TestSimDelete_endsEmptyFromEveryFailingCall walks a delete likewise.
func TestSimDelete_endsEmptyFromEveryFailingCall(t *testing.T) {
	remove := func(t *testing.T, d *daemon) error {
		t.Helper()
		return d.Delete(t.Context(), vmID, "")
	}
	walkSim(t, simStates(), remove, func(t *testing.T, d *daemon, s *sim.Host) {
		t.Helper()
		if err := remove(t, d); err != nil {
			t.Fatalf("Delete again = %v", err)
		}
		wantNoSimVM(t, s)
	})
}

// TestSimDelete_findsWhatLibvirtHasNotListed: virtlogd turns a console's log
// over behind libvirt's back.
func TestSimDelete_findsWhatLibvirtHasNotListed(t *testing.T) {
	for _, gone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := sim.NewHost(sim.Options{Name: "alpha"})
			d := newDaemon(t, s)
			d.mustCreate(t, spec("vm"))
			vm, _ := s.Domain("vm")
			for _, what := range []string{"console.log.0", "console.log.1"} {
				s.AddFile("kvm2.tester.vm."+vm.UUID[:8]+"."+what, []byte("unlisted"))
			}
			if gone {
				if err := errors.Join(s.PowerOff("vm"), undefineByHand(t, s)); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.Delete(t.Context(), vmID, ""); err != nil {
				t.Fatal(err)
			}
			wantNoSimVM(t, s)
			d.stop()
		})
	}
}

// fullWalk in the environment makes the walks meet every fault from every state.
const fullWalk = "KVM2_TEST_FULL_WALK"

// faultsFrom are the faults to meet from a state: all of them from the two that
// a create and a delete usually begin in, else, the walk being long, the worst;
// with -short no others.
func faultsFrom(state string) []string {
	if os.Getenv(fullWalk) != "" || state == "nothing, image there" || state == "running" {
		return slices.Sorted(maps.Keys(simFaults))
	}
	if testing.Short() {
		return nil
	}
	return []string{"host dies"}
}

// walkSim calls do with its n-th call to the host failing, for n = 1, 2, …
// until it passes untouched, and each time has settled bring things to their end.
func walkSim(t *testing.T, states map[string]func(*testing.T, *daemon, *sim.Host), do func(*testing.T, *daemon) error, settle func(*testing.T, *daemon, *sim.Host)) {
	t.Helper()
	for _, state := range slices.Sorted(maps.Keys(states)) {
		for _, fault := range faultsFrom(state) {
			t.Run(state+"/"+fault, func(t *testing.T) {
				t.Parallel()
				for n := 1; ; n++ {
					untouched := false
					synctest.Test(t, func(t *testing.T) {
						s := sim.NewHost(sim.Options{Name: "alpha"})
						d := newDaemon(t, s)
						states[state](t, d, s)
						<-time.After(time.Minute)
						s.ResetCalls()
						simFaults[fault](s, n)
						err := do(t, d)
						untouched = s.Calls("") < n
						if untouched && err != nil {
							t.Fatalf("without a fault: %v", err)
						}
						if err != nil && instance.ReasonOf(err).Kind() != instance.Transient {
							t.Errorf("got kind %s (%v), want Transient", instance.ReasonOf(err).Kind(), err)
						}
						s.ClearFaults()
						if n%2 == 0 {
							// As after a crash, nothing is remembered.
							d.stop()
							d = newDaemon(t, s)
						}
						// As above: the transport paces its dials after a loss.
						<-time.After(time.Minute)
						settle(t, d, s)
						d.stop()
					})
					if t.Failed() {
						t.Fatalf("at call %d", n)
					}
					if untouched {
						t.Logf("walked %d calls", n-1)
						return
					}
				}
			})
		}
	}
}
