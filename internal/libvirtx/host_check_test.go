package libvirtx_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"testing"
	"testing/synctest"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

func TestPreflight(t *testing.T) {
	noChange := func(*libvirtx.HostOptions) {}
	for _, tc := range []struct {
		name   string
		so     sim.Options
		change func(*libvirtx.HostOptions)
		spoil  func(*sim.Host)
		fw     instance.Firmware
		want   instance.Reason // "" is success
	}{
		{"bridge", sim.Options{}, noChange, nil, instance.FirmwareUEFI, ""},
		{"network", sim.Options{}, onNetwork, nil, instance.FirmwareUEFI, ""},
		{"bios", sim.Options{NoFirmware: true}, noChange, nil, instance.FirmwareBIOS, ""},
		{"no firmware", sim.Options{NoFirmware: true}, noChange, nil, instance.FirmwareUEFI, instance.ReasonFirmwareMissing},
		{"pool gone", sim.Options{}, noChange, (*sim.Host).RemovePool, instance.FirmwareUEFI, instance.ReasonPoolNotFound},
		{"pool stopped", sim.Options{}, noChange, func(s *sim.Host) { s.SetPoolActive(false) }, instance.FirmwareUEFI, instance.ReasonPoolNotActive},
		{"network gone", sim.Options{}, onNetwork, func(s *sim.Host) { s.RemoveNetwork("default") }, instance.FirmwareUEFI, instance.ReasonNetworkNotFound},
		{"network stopped", sim.Options{}, onNetwork, func(s *sim.Host) { s.SetNetworkActive("default", false) }, instance.FirmwareUEFI, instance.ReasonNetworkNotActive},
		{"bridge gone", sim.Options{}, noChange, func(s *sim.Host) { s.SetBridges() }, instance.FirmwareUEFI, instance.ReasonMisconfigured},
		{"bridge that libvirt cannot see", sim.Options{NoInterfaceDriver: true}, noChange, func(s *sim.Host) { s.SetBridges() }, instance.FirmwareUEFI, ""},
		{"unreachable", sim.Options{}, noChange, func(s *sim.Host) { s.Down(&net.OpError{Op: "dial", Err: errors.New("refused")}); s.Drop() }, instance.FirmwareUEFI, instance.ReasonUnreachable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, s := newHost(t, tc.so, tc.change)
			if tc.spoil != nil {
				tc.spoil(s)
			}
			err := h.Preflight(t.Context(), tc.fw)
			if tc.want != "" {
				wantReason(t, err, tc.want)
			} else if err != nil {
				t.Errorf("got %v, want success", err)
			}
		})
	}
}

func TestPreflight_oneRoundTripOnceKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHost(t, sim.Options{}, onNetwork)
		if err := h.Preflight(t.Context(), instance.FirmwareUEFI); err != nil {
			t.Fatal(err)
		}
		s.Slow(20 * time.Millisecond)
		began := time.Now()
		if err := h.Preflight(t.Context(), instance.FirmwareUEFI); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(began); got != 20*time.Millisecond {
			t.Errorf("took %s, want one round trip", got)
		}
	})
}

func TestPreflight_networkMadeAnewIsFound(t *testing.T) {
	h, s := newHost(t, sim.Options{}, onNetwork)
	if err := h.Preflight(t.Context(), instance.FirmwareUEFI); err != nil {
		t.Fatal(err)
	}
	s.FailMethod("NetworkIsActive", code(libvirt.ErrNoNetwork), 1)
	if err := h.Preflight(t.Context(), instance.FirmwareUEFI); err != nil {
		t.Error(err)
	}
}

func TestCheck_reasons(t *testing.T) {
	noChange := func(*libvirtx.HostOptions) {}
	down := func(err error) func(*sim.Host) { return func(s *sim.Host) { s.Down(err) } }
	fails := func(method string, n libvirt.ErrorNumber) func(*sim.Host) {
		return func(s *sim.Host) { s.FailMethod(method, code(n), -1) }
	}
	for _, tc := range []struct {
		name   string
		so     sim.Options
		change func(*libvirtx.HostOptions)
		spoil  func(*sim.Host)
		want   instance.Reason
	}{
		{"ready", sim.Options{}, noChange, nil, instance.ReasonReady},
		{"maintenance", sim.Options{}, func(o *libvirtx.HostOptions) { o.Maintenance = true }, nil, instance.ReasonMaintenance},
		{"refused", sim.Options{}, noChange, down(&net.OpError{Op: "dial", Err: errors.New("refused")}), instance.ReasonUnreachable},
		{"deadline", sim.Options{}, noChange, down(context.DeadlineExceeded), instance.ReasonTimeout},
		{"libvirt refuses the login", sim.Options{}, noChange, down(code(libvirt.ErrAuthFailed)), instance.ReasonAuthenticationFailed},
		{"libvirt does not open", sim.Options{}, noChange, down(code(libvirt.ErrNoConnect)), instance.ReasonLibvirtUnavailable},
		{"too old", sim.Options{LibVersion: 7_999_999}, noChange, nil, instance.ReasonLibvirtTooOld},
		{"old enough", sim.Options{LibVersion: 8_000_000}, noChange, nil, instance.ReasonReady},
		{"no hostname", sim.Options{}, noChange, fails("ConnectGetHostname", libvirt.ErrSystemError), instance.ReasonLibvirtUnavailable},
		{"no capabilities", sim.Options{}, noChange, fails("ConnectGetCapabilities", libvirt.ErrSystemError), instance.ReasonLibvirtUnavailable},
		{"no such domain type", sim.Options{NoKVM: true}, func(o *libvirtx.HostOptions) { o.DomainType = "kvm" }, nil, instance.ReasonMisconfigured},
		{"no such emulator", sim.Options{}, func(o *libvirtx.HostOptions) { o.Emulator = "/nowhere" }, fails("ConnectGetDomainCapabilities", libvirt.ErrSystemError), instance.ReasonMisconfigured},
		{"no firmware", sim.Options{NoFirmware: true}, noChange, nil, instance.ReasonFirmwareMissing},
		{"no pool", sim.Options{}, noChange, (*sim.Host).RemovePool, instance.ReasonPoolNotFound},
		{"pool stopped", sim.Options{}, noChange, func(s *sim.Host) { s.SetPoolActive(false) }, instance.ReasonPoolNotActive},
		{"pool busy", sim.Options{}, noChange, fails("StoragePoolRefresh", libvirt.ErrInternalError), instance.ReasonReady},
		{"no bridge", sim.Options{}, noChange, func(s *sim.Host) { s.SetBridges("br1") }, instance.ReasonMisconfigured},
		{"bridges unseen", sim.Options{NoInterfaceDriver: true}, noChange, nil, instance.ReasonReady},
		{"no network", sim.Options{}, onNetwork, func(s *sim.Host) { s.RemoveNetwork("default") }, instance.ReasonMisconfigured},
		{"network stopped", sim.Options{}, onNetwork, func(s *sim.Host) { s.SetNetworkActive("default", false) }, instance.ReasonMisconfigured},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, s := newHost(t, tc.so, tc.change)
			if tc.spoil != nil {
				tc.spoil(s)
			}
			got := h.Check(t.Context())
			if got.Reason != tc.want || got.Ready != (tc.want == instance.ReasonReady) || got.Message == "" {
				t.Errorf("got ready %v, %s (%s), want %s", got.Ready, got.Reason, got.Message, tc.want)
			}
			if want := tc.want == instance.ReasonMaintenance; h.InMaintenance() != want {
				t.Errorf("got in maintenance %v, want %v", !want, want)
			}
			if got.Host != "beelink" || got.Details.User != "kvm2d" || got.Details.Pool != "default" {
				t.Errorf("got %+v, want host, user and pool whatever happens", got)
			}
		})
	}
}

func TestCheck_details(t *testing.T) {
	h, _ := newHost(t, sim.Options{Name: "beelink.example.net", PoolCapacityBytes: 100 << 30})
	got := h.Check(t.Context()).Details
	if got.HostUUID == "" || got.PoolUUID == "" || got.MemoryFreeMiB == nil || got.PoolAvailableGiB == nil || got.PoolCapacityGiB == nil {
		t.Fatalf("got %+v, want everything known", got)
	}
	if *got.PoolCapacityGiB != 100 || *got.MemoryFreeMiB <= 0 {
		t.Errorf("got %v GiB, %v MiB", *got.PoolCapacityGiB, *got.MemoryFreeMiB)
	}
	want := instance.HostDetails{
		User: "kvm2d", Hostname: "beelink.example.net", LibvirtVersion: "9.0.0", DomainType: "kvm",
		Firmware: []string{"uefi", "bios"}, Pool: "default", PoolState: "running",
	}
	got.HostUUID, got.PoolUUID, got.MemoryFreeMiB, got.PoolAvailableGiB, got.PoolCapacityGiB = "", "", nil, nil, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
}

// TestCheck_nearlyFullPoolIsReadyAndSaysSo: a full disk stops new instances only.
func TestCheck_nearlyFullPoolIsReadyAndSaysSo(t *testing.T) {
	for _, tc := range []struct {
		leave uint64
		want  string
	}{
		{11 << 30, "ready for instances"},
		{9 << 30, "ready, but pool default is nearly full: 9.00 of 100.00 GiB are free"},
		{0, "ready, but pool default is nearly full: 0.00 of 100.00 GiB are free"},
	} {
		h, s := newHost(t, sim.Options{PoolCapacityBytes: 100 << 30})
		s.FillPool(tc.leave)
		if got := h.Check(t.Context()); !got.Ready || got.Reason != instance.ReasonReady || got.Message != tc.want {
			t.Errorf("%d bytes left: got ready %v, %s (%s), want Ready (%s)", tc.leave, got.Ready, got.Reason, got.Message, tc.want)
		}
	}
}

func TestCheck_faultInOnePartKeepsTheRest(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	s.RemovePool()
	got := h.Check(t.Context()).Details
	if got.Hostname == "" || got.HostUUID == "" || got.LibvirtVersion == "" || got.MemoryFreeMiB == nil || got.PoolState != "" {
		t.Errorf("got %+v, want all but the pool", got)
	}
}

func TestCheck_usesAFreshConnectionEachTimeAndClosesIt(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	_, _ = h.Find(t.Context(), "x")
	warm := s.OpenConns()
	seen := map[int]bool{}
	s.OnCall(func(c sim.Call) error {
		if c.Method == "ConnectGetLibVersion" {
			seen[c.Conn] = true
		}
		return nil
	})
	for range 3 {
		h.Check(t.Context())
	}
	if len(seen) != 3 || seen[1] {
		t.Errorf("got connections %v, want three fresh ones", seen)
	}
	for deadline := time.Now().Add(5 * time.Second); s.OpenConns() != warm; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("got %d connections open, want %d", s.OpenConns(), warm)
		}
	}
}

func TestCheck_endedContextAnswersPromptlyWithWhatIsKnown(t *testing.T) {
	t.Run("ended before", func(t *testing.T) {
		h, _ := newHost(t, sim.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got := h.Check(ctx); got.Reason != instance.ReasonTimeout || got.Ready {
			t.Errorf("got %s, want Timeout", got.Reason)
		}
	})
	t.Run("ends meanwhile", func(t *testing.T) {
		h, s := newHost(t, sim.Options{})
		defer s.Stall("StoragePoolGetInfo")()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		got := h.Check(ctx)
		if got.Reason != instance.ReasonTimeout || got.Latency > 5*time.Second {
			t.Errorf("got %s after %s, want Timeout at once", got.Reason, got.Latency)
		}
		if got.Details.Hostname == "" || got.Details.LibvirtVersion == "" {
			t.Errorf("got %+v, want what was learnt before", got.Details)
		}
	})
	t.Run("dial never ends", func(t *testing.T) {
		h, s := newHost(t, sim.Options{})
		defer s.Stall("Connect")()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if got := h.Check(ctx); got.Reason != instance.ReasonTimeout {
			t.Errorf("got %s, want Timeout", got.Reason)
		}
	})
}

func TestCheck_missingKeyFileIsCredentialsUnavailable(t *testing.T) {
	connector, err := libvirtx.NewSSHConnector(libvirtx.SSHOptions{SSHEndpoint: libvirtx.SSHEndpoint{
		Addr: "127.0.0.1:1", User: "u", KeyFile: t.TempDir() + "/absent", KnownHostsFile: t.TempDir() + "/absent",
	}})
	if err != nil {
		t.Fatal(err)
	}
	link, err := libvirtx.NewLink(libvirtx.LinkOptions{Host: "beelink", Connector: connector})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	h, err := libvirtx.NewHost(libvirtx.HostOptions{Name: "beelink", Link: link, Owner: "kvm2d", Pool: "default", Bridge: "br0"})
	if err != nil {
		t.Fatal(err)
	}
	if got := h.Check(t.Context()); got.Reason != instance.ReasonCredentialsUnavailable {
		t.Errorf("got %s (%s), want CredentialsUnavailable", got.Reason, got.Message)
	}
	_, err = h.Find(t.Context(), "x")
	if !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, instance.Transient) {
		t.Errorf("got %v, want Transient, the file's absence in the chain", err)
	}
}
