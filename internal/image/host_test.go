package image_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/image"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

// newHost makes a real host layer over the simulated libvirt.
func newHost(t *testing.T, capacityBytes uint64) *libvirtx.Host {
	t.Helper()
	link, err := libvirtx.NewLink(libvirtx.LinkOptions{
		Host: "sim", Connector: sim.NewHost(sim.Options{PoolCapacityBytes: capacityBytes}), Limits: libvirtx.DefaultLimits(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	host, err := libvirtx.NewHost(libvirtx.HostOptions{Name: "sim", Link: link, Owner: "kvm2d", Pool: "default", Network: "default"})
	if err != nil {
		t.Fatal(err)
	}
	return host
}

func newCache(t *testing.T, host *libvirtx.Host) *image.Cache {
	t.Helper()
	c, err := image.New(image.Options{
		Pool: func(name string) (image.Pool, bool) { return host, name == host.Name() },
		Log:  slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer("test"),
		Registerer: prometheus.NewRegistry(), Stall: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(t.Context()) })
	return c
}

// serve publishes a raw disk of size bytes over HTTP.
func serve(t *testing.T, size int) instance.Image {
	t.Helper()
	disk := make([]byte, size)
	disk[446], disk[510], disk[511] = 0x80, 0x55, 0xAA
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "disk.raw", time.Unix(1e9, 0), strings.NewReader(string(disk)))
	}))
	t.Cleanup(server.Close)
	sum := sha256.Sum256(disk)
	return instance.Image{Name: "debian", URL: server.URL + "/disk.raw", SHA256: hex.EncodeToString(sum[:])}
}

// The whole life of an image on a host as libvirt describes it: fetched, found
// by a second daemon, kept while a machine uses it, removed.
func TestCache_overAHost(t *testing.T) {
	const size = 4 << 20
	host, img := newHost(t, 1<<30), serve(t, size)
	first, second := newCache(t, host), newCache(t, host)

	base, err := first.Ensure(t.Context(), "sim", img, size)
	if err != nil {
		t.Fatal(err)
	}
	if base.Format != "raw" || base.VirtualBytes != size {
		t.Errorf("got %+v, want a raw disk of %d bytes", base, size)
	}
	again, err := second.Ensure(t.Context(), "sim", img, size)
	if err != nil || again != base {
		t.Errorf("got %+v, %v, want %+v", again, err, base)
	}
	overlay := instance.NewVolume{
		Name: "kvm2.kvm2d.proxy-1.0a1b2c3d.root.qcow2", Format: "qcow2", CapacityBytes: size, BackingPath: base.Path, BackingFormat: base.Format,
	}
	if _, err := host.CreateVolume(t.Context(), overlay); err != nil {
		t.Fatal(err)
	}
	if err := second.Remove(t.Context(), "sim", img, ""); !errors.Is(err, instance.Permanent) || instance.ReasonOf(err) != instance.ReasonImageInUse {
		t.Errorf("got %v, want ImageInUse", err)
	}
	if err := first.Confirm(t.Context(), "sim", base); err != nil {
		t.Errorf("confirm: %v", err)
	}
	rows, err := first.Status(t.Context(), "sim", []instance.Image{img})
	if err != nil || len(rows) != 1 || rows[0].State != instance.ImageReady || rows[0].Overlays != 1 || rows[0].SizeBytes == 0 {
		t.Errorf("got %+v, %v, want one ready row with one overlay", rows, err)
	}
	if err := host.DeleteVolume(t.Context(), overlay.Name); err != nil {
		t.Fatal(err)
	}
	if err := second.Remove(t.Context(), "sim", img, ""); err != nil {
		t.Fatal(err)
	}
	if err := first.Confirm(t.Context(), "sim", base); instance.ReasonOf(err) != instance.ReasonVanished {
		t.Errorf("got %v, want Vanished", err)
	}
	if vols, err := host.Volumes(t.Context(), ""); err != nil || len(vols) != 0 {
		t.Errorf("got %+v, %v, want an empty pool", vols, err)
	}
}

// A host without room says so before anything is made there.
func TestCheckPoolSpace_overAHost(t *testing.T) {
	const size = 4 << 20
	host := newHost(t, 64<<20)
	cache, img := newCache(t, host), serve(t, size)
	_, err := cache.Ensure(t.Context(), "sim", img, 60<<20)
	if !errors.Is(err, instance.QuotaExceeded) {
		t.Errorf("got %v, want QuotaExceeded", err)
	}
	if vols, err := host.Volumes(t.Context(), ""); err != nil || len(vols) != 0 {
		t.Errorf("got %+v, %v, want an empty pool", vols, err)
	}
}
