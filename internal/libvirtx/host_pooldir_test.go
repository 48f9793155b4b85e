package libvirtx_test

import (
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

func rootDiskInPool(t *testing.T, h *libvirtx.Host, m instance.Machine) bool {
	t.Helper()
	in, err := h.RootDiskInPool(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestRootDiskInPool(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	m := define(t, h, "proxy-1")
	const dir = "/var/lib/libvirt/images/"
	for disk, want := range map[string]bool{
		m.RootDisk:                       true,
		"":                               true,
		dir + "never-there":              true,
		dir + "../images/never-there":    true,
		"/srv/other/" + m.Overlay:        false,
		"/var/lib/libvirt/" + m.Overlay:  false,
		dir + "deeper/" + m.Overlay:      false,
		"/var/lib/libvirt/images-2/disk": false,
	} {
		if got := rootDiskInPool(t, h, instance.Machine{Name: "proxy-1", RootDisk: disk}); got != want {
			t.Errorf("%q: got %v, want %v", disk, got, want)
		}
	}
	s.ResetCalls()
	rootDiskInPool(t, h, m)
	if got := s.Calls(""); got != 0 {
		t.Errorf("got %d calls for what is known, want none", got)
	}
}

func TestRootDiskInPool_poolMadeAnewElsewhere(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	m := define(t, h, "proxy-1")
	rootDiskInPool(t, h, m)
	s.RemovePool()
	if !rootDiskInPool(t, h, instance.Machine{RootDisk: "/srv/other/disk"}) {
		t.Error("without a pool: got false, want true")
	}
	s.AddPool("default", "/srv/anew", 1<<30)
	if rootDiskInPool(t, h, instance.Machine{RootDisk: "/srv/other/disk"}) || !rootDiskInPool(t, h, instance.Machine{RootDisk: "/srv/anew/disk"}) {
		t.Error("the new pool's directory is not what counts")
	}
}

func TestRootDiskInPool_failsWhenItCannotBeKnown(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	s.FailMethod("StoragePoolGetXMLDesc", code(libvirt.ErrSystemError), 1)
	_, err := h.RootDiskInPool(t.Context(), instance.Machine{RootDisk: "/srv/other/disk"})
	wantReason(t, err, instance.ReasonLibvirtError)
}
