//go:build integration

package libvirtx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
)

// env reads a setting of the integration tests; the test is skipped without it.
func env(t *testing.T, name string) string {
	t.Helper()
	v := os.Getenv("KVM2_TEST_" + name)
	if v == "" {
		t.Skipf("KVM2_TEST_%s is not set", name)
	}
	return v
}

func realHost(t *testing.T, change func(*libvirtx.HostOptions)) *libvirtx.Host {
	t.Helper()
	addr := env(t, "HOST")
	if _, _, err := net.SplitHostPort(addr); err != nil {
		addr = net.JoinHostPort(addr, "22")
	}
	connector, err := libvirtx.NewSSHConnector(libvirtx.SSHOptions{SSHEndpoint: libvirtx.SSHEndpoint{
		Addr: addr, User: env(t, "USER"), KeyFile: env(t, "SSH_KEY"), KnownHostsFile: env(t, "KNOWN_HOSTS"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	link, err := libvirtx.NewLink(libvirtx.LinkOptions{Host: "real", Connector: connector})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	o := libvirtx.HostOptions{
		Name: "real", Link: link, Owner: "hosttest", Pool: "default", Bridge: env(t, "BRIDGE"),
		DomainType: os.Getenv("KVM2_TEST_DOMAIN_TYPE"), User: env(t, "USER"),
	}
	if pool := os.Getenv("KVM2_TEST_POOL"); pool != "" {
		o.Pool = pool
	}
	if change != nil {
		change(&o)
	}
	h, err := libvirtx.NewHost(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// must fails the test on an error and returns the value otherwise.
func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// machineParts are the volumes of one machine and what defines it.
func machineParts(t *testing.T, h *libvirtx.Host, name string, fw instance.Firmware) instance.Definition {
	t.Helper()
	ctx := t.Context()
	id := uuid.NewString()
	prefix := "kvm2.hosttest." + name + "." + id[:8]
	base := baseImage(t, h)
	overlay := must[instance.Volume](t)(h.CreateVolume(ctx, instance.NewVolume{
		Name: prefix + ".root.qcow2", Format: "qcow2", CapacityBytes: 1 << 30, BackingPath: base.Path, BackingFormat: "qcow2",
	}))
	seedBytes := make([]byte, 64<<10)
	seed := must[instance.Volume](t)(h.CreateVolume(ctx, instance.NewVolume{
		Name: prefix + ".seed.iso", Format: "raw", CapacityBytes: int64(len(seedBytes)),
	}))
	if err := h.Upload(ctx, seed.Name, bytes.NewReader(seedBytes), int64(len(seedBytes))); err != nil {
		t.Fatal(err)
	}
	return instance.Definition{
		Name: name, UUID: id, VCPUs: 1, MemoryMiB: 512, Firmware: fw,
		Mark:        instance.Mark{Owner: "hosttest", UID: "u1", CreatedAt: time.Now().UTC().Truncate(time.Second), Tags: map[string]string{"a": "<b>"}},
		OverlayPath: overlay.Path, SeedPath: seed.Path,
		ConsolePath: path.Join(path.Dir(overlay.Path), prefix+".console.log"), Autostart: true,
	}
}

func baseImage(t *testing.T, h *libvirtx.Host) instance.Volume {
	t.Helper()
	const name = "kvm2-base.hosttest.qcow2"
	if v, err := h.Volume(t.Context(), name); err == nil {
		return v
	}
	req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, env(t, "IMAGE_URL"), http.NoBody))
	req.Close = true // an idle connection would look like a leak
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	must[instance.Volume](t)(h.CreateVolume(t.Context(), instance.NewVolume{Name: name, Format: "qcow2", CapacityBytes: 1 << 20}))
	if err := h.Upload(t.Context(), name, resp.Body, resp.ContentLength); err != nil {
		t.Fatal(err)
	}
	return must[instance.Volume](t)(h.Volume(t.Context(), name))
}

// sweep removes all that the tests made on the host.
func sweep(t *testing.T, h *libvirtx.Host) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	listing, err := h.List(ctx)
	if err != nil {
		t.Error(err)
	}
	for _, m := range listing.Machines {
		if err := errors.Join(h.Stop(ctx, m), h.Undefine(ctx, m)); err != nil {
			t.Error(err)
		}
	}
	for _, prefix := range []string{"kvm2.hosttest.", "kvm2-base.hosttest."} {
		vols, err := h.Volumes(ctx, prefix)
		if err != nil {
			t.Error(err)
		}
		for _, v := range vols {
			if err := h.DeleteVolume(ctx, v.Name); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestKVM2Host_wholeLife(t *testing.T) {
	for _, fw := range []instance.Firmware{instance.FirmwareUEFI, instance.FirmwareBIOS} {
		t.Run(string(fw), func(t *testing.T) { wholeLife(t, fw) })
	}
}

func wholeLife(t *testing.T, fw instance.Firmware) {
	t.Helper()
	ctx := t.Context()
	h := realHost(t, nil)
	t.Cleanup(func() { sweep(t, h) })
	if err := h.Preflight(ctx, fw); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Find(ctx, "hosttest-1"); instance.ReasonOf(err) != instance.ReasonInstanceNotFound {
		t.Fatalf("find an absent one: %v", err)
	}
	d := machineParts(t, h, "hosttest-1", fw)
	if err := h.Define(ctx, d); err != nil {
		t.Fatal(err)
	}
	other := d
	other.UUID = uuid.NewString()
	if err := h.Define(ctx, other); !errors.Is(err, instance.ErrAlreadyDefined) {
		t.Fatalf("second define: %v", err)
	}
	m := must[instance.Machine](t)(h.Find(ctx, d.Name))
	if m.Power != instance.PowerOff || !m.Persistent || m.Overlay != path.Base(d.OverlayPath) || m.Mark.UID != "u1" {
		t.Fatalf("defined: %+v", m)
	}
	if err := h.Start(ctx, m, true); err != nil {
		t.Fatal(err)
	}
	if err := h.Start(ctx, m, true); err != nil {
		t.Fatalf("start again: %v", err)
	}
	m = awaitAddress(t, h, d.Name)
	t.Logf("%s: %+v", m.PowerReason, m.Addresses)
	listing := must[instance.Listing](t)(h.List(ctx))
	if len(listing.Machines) != 1 || listing.Machines[0].Power != instance.PowerOn || len(listing.Machines[0].Addresses) == 0 {
		t.Fatalf("listing: %+v", listing)
	}
	mark := *m.Mark
	mark.Deleting = true
	if err := h.SetMark(ctx, m, mark); err != nil {
		t.Fatal(err)
	}
	if m = must[instance.Machine](t)(h.Find(ctx, d.Name)); !m.Mark.Deleting || m.Mark.Tags["a"] != "<b>" {
		t.Fatalf("mark: %+v", m.Mark)
	}
	log := must[[]byte](t)(h.ReadVolume(ctx, path.Base(d.ConsolePath), 4096))
	t.Logf("console: %d bytes, ends %q", len(log), log[max(0, len(log)-200):])
	stopAndForget(t, h, m, path.Base(d.ConsolePath))
}

func awaitAddress(t *testing.T, h *libvirtx.Host, name string) instance.Machine {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		m := must[instance.Machine](t)(h.FindWithAddresses(ctx, name))
		if m.Power != instance.PowerOn {
			t.Fatalf("stopped: %s", m.PowerReason)
		}
		if len(m.Addresses) > 0 && m.Addresses[0].Source == instance.SourceAgent {
			return m
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			t.Fatalf("no address: %+v", m)
		}
	}
}

func stopAndForget(t *testing.T, h *libvirtx.Host, m instance.Machine, console string) {
	t.Helper()
	ctx := t.Context()
	for range 2 {
		if err := h.Stop(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := h.Undefine(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.DeleteVolume(ctx, console); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Volume(ctx, console); !errors.Is(err, instance.ErrNoVolume) {
		t.Fatalf("console log after delete: %v", err)
	}
	if err := h.SetMark(ctx, m, *m.Mark); instance.ReasonOf(err) != instance.ReasonInstanceNotFound {
		t.Fatalf("mark a gone one: %v", err)
	}
	if err := h.Start(ctx, m, false); instance.ReasonOf(err) != instance.ReasonVanished {
		t.Fatalf("start a gone one: %v", err)
	}
}

func TestKVM2Host_volumes(t *testing.T) {
	ctx := t.Context()
	small := env(t, "SMALL_POOL")
	h := realHost(t, func(o *libvirtx.HostOptions) { o.Pool = small })
	t.Cleanup(func() { sweep(t, h) })
	const name = "kvm2.hosttest.v.12345678.root.qcow2"
	if _, err := h.Volume(ctx, name); !errors.Is(err, instance.ErrNoVolume) || errors.Is(err, instance.NotFound) {
		t.Fatalf("absent volume: %v", err)
	}
	v := instance.NewVolume{Name: name, Format: "raw", CapacityBytes: 1 << 30}
	must[instance.Volume](t)(h.CreateVolume(ctx, v))
	if _, err := h.CreateVolume(ctx, v); !errors.Is(err, instance.ErrVolumeExists) {
		t.Fatalf("second create: %v", err)
	}
	err := h.Upload(ctx, name, strings.NewReader("short"), 100)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("short upload: %v", err)
	}
	err = h.Upload(ctx, name, zeros{}, 1<<30)
	if instance.ReasonOf(err) != instance.ReasonPoolFull {
		t.Fatalf("upload into a full pool: %v", err)
	}
	t.Log(err)
	if _, err := h.CheckSpace(ctx, 60<<20); instance.ReasonOf(err) != instance.ReasonPoolFull {
		t.Fatalf("space of a full pool: %v", err)
	}
	_, err = h.CreateVolume(ctx, instance.NewVolume{Name: "kvm2.hosttest.w.12345678.root.qcow2", Format: "qcow2", CapacityBytes: 1 << 30})
	if instance.ReasonOf(err) != instance.ReasonPoolFull {
		t.Fatalf("create in a full pool: %v", err)
	}
	t.Log(err)
	if err := h.DeleteVolume(ctx, name); err != nil {
		t.Fatal(err)
	}
	_, err = h.CreateVolume(ctx, instance.NewVolume{Name: name, Format: "qcow2", CapacityBytes: 1 << 30, BackingPath: "/nowhere", BackingFormat: "raw"})
	if err == nil || instance.ReasonOf(err) == instance.ReasonPoolFull {
		t.Fatalf("overlay of nothing: %v", err)
	}
	t.Log(err)
}

// libvirt refuses a refresh while volumes are made (1), which is no failure. Several
// daemons on a pool, each with its own refreshes, get all they ask for.
func TestKVM2Host_twentyVolumesAtOnce(t *testing.T) {
	var work sync.WaitGroup
	for d := range 4 {
		h := realHost(t, nil)
		t.Cleanup(func() { sweep(t, h) })
		for i := range 5 {
			work.Go(func() {
				if _, err := h.CheckSpace(t.Context(), 1<<20); err != nil {
					t.Errorf("space: %v", err)
				}
				name := fmt.Sprintf("kvm2.hosttest.v%d-%d.12345678.root.qcow2", d, i)
				if _, err := h.CreateVolume(t.Context(), instance.NewVolume{Name: name, Format: "qcow2", CapacityBytes: 1 << 30}); err != nil {
					t.Errorf("create: %v", err)
				}
			})
		}
	}
	work.Wait()
}

// zeros never ends and never is empty.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0x5a
	}
	return len(p), nil
}

func TestKVM2Host_check(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*libvirtx.HostOptions)
		want   instance.Reason
	}{
		{"ready", nil, instance.ReasonReady},
		{"maintenance", func(o *libvirtx.HostOptions) { o.Maintenance = true }, instance.ReasonMaintenance},
		{"no pool", func(o *libvirtx.HostOptions) { o.Pool = "nowhere" }, instance.ReasonPoolNotFound},
		{"no bridge", func(o *libvirtx.HostOptions) { o.Bridge = "br77" }, instance.ReasonMisconfigured},
		{"no network", func(o *libvirtx.HostOptions) { o.Bridge, o.Network = "", "nowhere" }, instance.ReasonMisconfigured},
		{"network", func(o *libvirtx.HostOptions) { o.Bridge, o.Network = "", "default" }, instance.ReasonReady},
		{"no emulator", func(o *libvirtx.HostOptions) { o.Emulator = "/nowhere" }, instance.ReasonMisconfigured},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := realHost(t, tc.change).Check(t.Context())
			if got.Reason != tc.want {
				t.Errorf("got %s (%s), want %s", got.Reason, got.Message, tc.want)
			}
			t.Logf("%s in %s: %+v", got.Message, got.Latency, got.Details)
		})
	}
}
