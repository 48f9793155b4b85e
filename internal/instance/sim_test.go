package instance_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/image"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

// daemon is a whole kvm2d but for its edge, over simulated libvirt hosts: the
// Service, the image cache, the host layer and the transport.
type daemon struct {
	*instance.Service
	stops []func()
}

// newDaemon starts one over hosts that are named alpha, beta, …, as sims are given.
func newDaemon(t *testing.T, sims ...*sim.Host) *daemon {
	t.Helper()
	d := &daemon{}
	log := slog.New(slog.DiscardHandler)
	catalog := instance.Catalog{
		Images:     map[string]instance.Image{"debian": {Name: "debian", URL: "https://images.example.net/debian.qcow2"}},
		Sizes:      map[string]instance.Size{"small": {Name: "small", VCPUs: 1, MemoryMiB: 512, DiskGiB: 10}},
		Placements: map[string]instance.Placement{},
	}
	var all []*libvirtx.Host
	for i, s := range sims {
		name := []string{"alpha", "beta"}[i]
		link, err := libvirtx.NewLink(libvirtx.LinkOptions{Host: name, Connector: s, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		d.stops = append(d.stops, func() { _ = link.Close() })
		h, err := libvirtx.NewHost(libvirtx.HostOptions{
			Name: name, Link: link, Owner: testOwner, Pool: "default", Bridge: "br0", Log: log,
		})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
		catalog.Placements[name] = instance.Placement{Name: name, Host: name, Image: "debian", Size: "small"}
	}
	hosts := libvirtx.NewHosts(all)
	cache, err := image.New(image.Options{
		Pool: func(name string) (image.Pool, bool) {
			return hosts.Host(name)
		},
		Transport: sim.Images{FileBytes: 256 << 10}, Log: log, Tracer: noop.NewTracerProvider().Tracer(""),
		Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	d.stops = append(d.stops, func() { _ = cache.Close(expired()) })
	d.Service, err = instance.New(instance.Options{
		Hosts: hosts, Images: cache, Catalog: catalog, Owner: testOwner,
		CreateWait: 10 * time.Minute, CreatesPerHost: 3, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	d.stops = append(d.stops, func() { closeNow(d.Service) })
	t.Cleanup(d.stop)
	return d
}

// stop ends the daemon at once, as a drain whose time is up. It may be called
// more than once.
func (d *daemon) stop() {
	for _, stop := range slices.Backward(d.stops) {
		stop()
	}
	d.stops = nil
}

// expired is a context that has ended.
func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// ofInstances are the names of all volumes but images'.
func ofInstances(s *sim.Host) []string {
	var out []string
	for _, v := range s.Volumes() {
		if !strings.HasPrefix(v.Name, "kvm2-base.") {
			out = append(out, v.Name)
		}
	}
	return out
}

// wantOneSimVM fails unless the host runs exactly one whole domain, vm, with
// its own volumes and no other's, booted with its own NVRAM.
func wantOneSimVM(t *testing.T, s *sim.Host) sim.DomainInfo {
	t.Helper()
	all := s.Domains()
	if len(all) != 1 || all[0].Name != "vm" {
		t.Fatalf("got domains %+v, want vm alone", all)
	}
	d := all[0]
	if d.State != libvirt.DomainRunning || !d.Persistent || !d.Autostart || strings.Contains(d.XML, "deleting=") {
		t.Errorf("got %+v, want it running, persistent, to be started with its host, and not being deleted", d)
	}
	if d.NVRAMFrom != d.UUID {
		t.Errorf("got NVRAM made for %q, want it the domain's own, %s", d.NVRAMFrom, d.UUID)
	}
	prefix := "kvm2." + testOwner + ".vm." + d.UUID[:8] + "."
	want := []string{prefix + "console.log", prefix + "root.qcow2", prefix + "seed.iso"}
	if got := ofInstances(s); !slices.Equal(got, want) {
		t.Errorf("got volumes %v, want %v", got, want)
	}
	return d
}

func wantNoSimVM(t *testing.T, s *sim.Host) {
	t.Helper()
	if domains, volumes := s.Domains(), ofInstances(s); len(domains) != 0 || len(volumes) != 0 {
		t.Errorf("got domains %+v and volumes %v, want nothing left", domains, volumes)
	}
	if made, ok := s.NVRAM("vm"); ok {
		t.Errorf("NVRAM that was made for %s is left", made)
	}
}

func (d *daemon) mustCreate(t *testing.T, s instance.Spec) instance.Created {
	t.Helper()
	got, err := d.Create(t.Context(), s, time.Hour)
	if err != nil {
		t.Fatalf("Create(%s) = %v", s.Name, err)
	}
	return got
}
