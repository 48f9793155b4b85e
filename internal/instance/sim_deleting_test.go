package instance_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

// TestSimCreate_finishesTheDeleteThatMetAStart: a Delete reads a machine off,
// somebody starts it, the Delete marks its definition and dies. The running
// machine carries no mark, and is doomed all the same.
func TestSimCreate_finishesTheDeleteThatMetAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.NewHost(sim.Options{Name: "alpha"})
		d := newDaemon(t, s)
		d.mustCreate(t, spec("vm"))
		before, _ := s.Domain("vm")
		if err := s.PowerOff("vm"); err != nil {
			t.Fatal(err)
		}
		s.OnCall(func(c sim.Call) error {
			if c.Method == "DomainSetMetadata" {
				s.OnCall(nil)
				startByHand(t, s)
				s.Inject(sim.Fault{Drop: true, Times: -1})
			}
			return nil
		})
		if err := d.Delete(t.Context(), vmID, ""); instance.ReasonOf(err).Kind() != instance.Transient {
			t.Fatalf("Delete = %v, want it to die", err)
		}
		s.ClearFaults()
		if vm, _ := s.Domain("vm"); !vm.Running || strings.Contains(vm.XML, "deleting=") || !strings.Contains(vm.StoredXML, "deleting=") {
			t.Fatalf("got %+v, want it running with the mark in its definition alone", vm)
		}
		d.stop()
		d = newDaemon(t, s)
		if got, err := d.Get(t.Context(), vmID); err != nil || !strings.Contains(got.StateReason, "deleted") {
			t.Errorf("Get = %+v, %v, want it to say that it is being deleted", got, err)
		}
		d.mustCreate(t, spec("vm"))
		if after := wantOneSimVM(t, s); after.UUID == before.UUID {
			t.Error("the machine that was being deleted was taken over")
		}
		d.stop()
	})
}

// startByHand starts vm as another client of the host would.
func startByHand(t *testing.T, s *sim.Host) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := s.Connect(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close() }()
	dom, err := conn.DomainLookupByName(ctx, "vm")
	if err == nil {
		err = conn.DomainCreate(ctx, dom, libvirt.DomainNone)
	}
	if err != nil {
		t.Error(err)
	}
}
