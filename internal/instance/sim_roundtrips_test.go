package instance_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

// TestSim_roundTrips counts, in virtual time, the calls that a request waits
// for one after the other: everything warm, the image there, starts not counted.
func TestSim_roundTrips(t *testing.T) {
	for _, tt := range []struct {
		name string
		most int
		do   func(t *testing.T, d *daemon, name string)
	}{
		{"create", 7, func(t *testing.T, d *daemon, name string) {
			t.Helper()
			d.mustCreate(t, spec(name))
		}},
		{"get", 2, func(t *testing.T, d *daemon, _ string) {
			t.Helper()
			if _, err := d.Get(t.Context(), vmID); err != nil {
				t.Error(err)
			}
		}},
		{"list", 4, func(t *testing.T, d *daemon, _ string) {
			t.Helper()
			if _, err := d.List(t.Context(), instance.Filter{}); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const trip, start = time.Millisecond, time.Second
				s := sim.NewHost(sim.Options{Name: "alpha"})
				d := newDaemon(t, s)
				d.mustCreate(t, spec("vm"))
				tt.do(t, d, "warm")
				var mu sync.Mutex
				var calls []string
				began := time.Now()
				s.OnCall(func(c sim.Call) error {
					mu.Lock()
					calls = append(calls, time.Since(began).String()+" "+c.Method)
					mu.Unlock()
					if c.Method == "DomainCreate" {
						<-time.After(start)
					} else {
						<-time.After(trip)
					}
					return nil
				})
				began = time.Now()
				tt.do(t, d, "new")
				if got := int(time.Since(began) % start / trip); got > tt.most {
					t.Errorf("got %d round trips one after the other, want at most %d: %v", got, tt.most, calls)
				} else {
					t.Logf("%d round trips: %v", got, calls)
				}
				d.stop()
			})
		})
	}
}
