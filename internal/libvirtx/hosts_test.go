package libvirtx_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

// testOwner is who the host under test works for.
const testOwner = "kvm2d"

// newHost makes a host over a simulated libvirt. Everything about both has a
// default; guests boot at once.
func newHost(t *testing.T, so sim.Options, change ...func(*libvirtx.HostOptions)) (*libvirtx.Host, *sim.Host) {
	t.Helper()
	if so.BootDelay == 0 {
		so.BootDelay, so.ARPDelay = -1, -1
	}
	s := sim.NewHost(so)
	link, err := libvirtx.NewLink(libvirtx.LinkOptions{Host: "beelink", Connector: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Errorf("close link: %v", err)
		}
	})
	o := libvirtx.HostOptions{
		Name: "beelink", Link: link, Owner: testOwner, Pool: "default", Bridge: "br0", User: "kvm2d",
	}
	for _, c := range change {
		c(&o)
	}
	h, err := libvirtx.NewHost(o)
	if err != nil {
		t.Fatal(err)
	}
	return h, s
}

func onNetwork(o *libvirtx.HostOptions) { o.Bridge, o.Network = "", "default" }

// code makes the error that libvirt answers with.
func code(n libvirt.ErrorNumber) error {
	return libvirt.Error{Code: uint32(n), Message: "as told by the test"}
}

// makeVolume makes a volume and returns its path.
func makeVolume(t *testing.T, h *libvirtx.Host, v instance.NewVolume) string {
	t.Helper()
	made, err := h.CreateVolume(t.Context(), v)
	if err != nil {
		t.Fatalf("make volume %s: %v", v.Name, err)
	}
	return made.Path
}

// definition makes the volumes of a machine and says what defines it.
func definition(t *testing.T, h *libvirtx.Host, name string) instance.Definition {
	t.Helper()
	id := uuid.NewString()
	prefix := "kvm2." + testOwner + "." + name + "." + id[:8]
	overlay := makeVolume(t, h, instance.NewVolume{Name: prefix + ".root.qcow2", Format: "qcow2", CapacityBytes: 1 << 30})
	seed := makeVolume(t, h, instance.NewVolume{Name: prefix + ".seed.iso", Format: "raw", CapacityBytes: 4096})
	return instance.Definition{
		Name: name, UUID: id, VCPUs: 1, MemoryMiB: 512, Firmware: instance.FirmwareUEFI, Autostart: true,
		Mark: instance.Mark{
			Owner: testOwner, UID: "uid-" + name, Placement: "beelink", Image: "debian-13", Size: "small",
			CreatedAt: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC), Tags: map[string]string{"role": "<egress>"},
		},
		OverlayPath: overlay, SeedPath: seed,
		ConsolePath: strings.TrimSuffix(overlay, ".root.qcow2") + ".console.log",
	}
}

// define makes a machine that is off.
func define(t *testing.T, h *libvirtx.Host, name string) instance.Machine {
	t.Helper()
	d := definition(t, h, name)
	if err := h.Define(t.Context(), d); err != nil {
		t.Fatalf("define %s: %v", name, err)
	}
	return find(t, h, name)
}

// boot makes a machine that runs.
func boot(t *testing.T, h *libvirtx.Host, name string) instance.Machine {
	t.Helper()
	if err := h.Start(t.Context(), define(t, h, name), true); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	return find(t, h, name)
}

func find(t *testing.T, h *libvirtx.Host, name string) instance.Machine {
	t.Helper()
	m, err := h.Find(t.Context(), name)
	if err != nil {
		t.Fatalf("find %s: %v", name, err)
	}
	return m
}

// wantReason checks an error's reason and that it names the host once.
func wantReason(t *testing.T, err error, want instance.Reason) {
	t.Helper()
	if err == nil {
		t.Errorf("got no error, want %s", want)
		return
	}
	var e *instance.Error
	if !errors.As(err, &e) || e.Reason != want {
		t.Errorf("got %s (%v), want %s", instance.ReasonOf(err), err, want)
		return
	}
	if e.Host != "beelink" || strings.Count(err.Error(), "beelink") != 1 {
		t.Errorf("got %q, want the host named once", err)
	}
	if e.Err != nil && errors.As(e.Err, new(*instance.Error)) {
		t.Errorf("got %q, which is wrapped twice", err)
	}
}

func TestNewHost_namesEverythingMissing(t *testing.T) {
	_, err := libvirtx.NewHost(libvirtx.HostOptions{Name: "Bad Name", Bridge: "a", Network: "b", DomainType: "xen"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"Name", "Link", "Owner", "Pool", "Bridge or Network", "DomainType"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %s named", err, want)
		}
	}
}

func TestHosts_inConfigOrder(t *testing.T) {
	var hosts []*libvirtx.Host
	for _, name := range []string{"zeta", "alpha", "mid"} {
		h, _ := newHost(t, sim.Options{}, func(o *libvirtx.HostOptions) { o.Name = name })
		hosts = append(hosts, h)
	}
	hs := libvirtx.NewHosts(hosts)
	all := hs.All()
	if len(all) != 3 || all[0].Name() != "zeta" || all[1].Name() != "alpha" || all[2].Name() != "mid" {
		t.Errorf("got %v, want zeta, alpha, mid", all)
	}
	if h, ok := hs.Host("alpha"); !ok || h.Name() != "alpha" {
		t.Errorf("got %v, %v, want alpha", h, ok)
	}
	if err := hs.Close(); err != nil {
		t.Error(err)
	}
	_, err := all[0].Find(context.Background(), "x")
	if instance.ReasonOf(err) != instance.ReasonShuttingDown {
		t.Errorf("after close: got %v, want ShuttingDown", err)
	}
}

// noImages stands in where no image is touched.
type noImages struct{ instance.Images }

func TestHosts_unconfiguredHostIsPermanent(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	hs := libvirtx.NewHosts([]*libvirtx.Host{h})
	if got, ok := hs.Host("elsewhere"); ok || got != nil {
		t.Fatalf("got %v, %v, want no host", got, ok)
	}
	service, err := instance.New(instance.Options{
		Hosts: hs, Images: noImages{}, Owner: testOwner, CreateWait: time.Minute, CreatesPerHost: 1,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = service.Get(t.Context(), "hosts/elsewhere/domains/proxy-1")
	if !errors.Is(err, instance.Permanent) || instance.ReasonOf(err) != instance.ReasonHostNotConfigured {
		t.Errorf("got %v, want Permanent, HostNotConfigured", err)
	}
	if s.Connects() != 0 {
		t.Errorf("got %d connections, want none", s.Connects())
	}
	if err := service.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
