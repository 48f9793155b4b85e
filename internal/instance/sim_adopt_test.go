package instance_test

import (
	"testing"
	"testing/synctest"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

// TestSimCreate_diskPutBackBesideARefresh: the root disk is put back by hand
// right after the pool was refreshed for something else.
func TestSimCreate_diskPutBackBesideARefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.NewHost(sim.Options{Name: "alpha"})
		d := newDaemon(t, s)
		d.mustCreate(t, spec("vm"))
		before, _ := s.Domain("vm")
		root := "kvm2." + testOwner + ".vm." + before.UUID[:8] + ".root.qcow2"
		if err := s.PowerOff("vm"); err != nil {
			t.Fatal(err)
		}
		if err := s.RemoveVolume(root); err != nil {
			t.Fatal(err)
		}
		d.mustCreate(t, spec("another"))
		s.AddFile(root, []byte("data"))
		d.mustCreate(t, spec("vm"))
		if after, _ := s.Domain("vm"); after.UUID != before.UUID {
			t.Error("the machine was made anew, and its disk is gone")
		}
		d.stop()
	})
}
