package libvirtx_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

func TestFind_readsWhatWasDefined(t *testing.T) {
	h, _ := newHost(t, sim.Options{})
	d := definition(t, h, "proxy-1")
	if err := h.Define(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	want := instance.Machine{
		Name: "proxy-1", UUID: d.UUID, Mark: &d.Mark, Power: instance.PowerOff, PowerReason: "shut off", Persistent: true,
		RootDisk: d.OverlayPath, Overlay: "kvm2.kvm2d.proxy-1." + d.UUID[:8] + ".root.qcow2",
	}
	if diff := cmp.Diff(want, find(t, h, "proxy-1")); diff != "" {
		t.Errorf("off (-want +got):\n%s", diff)
	}
	if err := h.Start(t.Context(), want, true); err != nil {
		t.Fatal(err)
	}
	want.Power, want.PowerReason = instance.PowerOn, "running: booted"
	if diff := cmp.Diff(want, find(t, h, "proxy-1")); diff != "" {
		t.Errorf("on (-want +got):\n%s", diff)
	}
	again, err := h.Read(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
}

func TestFind_absentAndVanishedAreInstanceNotFound(t *testing.T) {
	h, _ := newHost(t, sim.Options{})
	_, err := h.Find(t.Context(), "proxy-1")
	wantReason(t, err, instance.ReasonInstanceNotFound)

	find := func(h *libvirtx.Host, _ instance.Machine) error {
		_, err := h.FindWithAddresses(t.Context(), "proxy-1")
		return err
	}
	read := func(h *libvirtx.Host, m instance.Machine) error {
		_, err := h.Read(t.Context(), m)
		return err
	}
	for _, tc := range []struct {
		method string
		number libvirt.ErrorNumber
		call   func(*libvirtx.Host, instance.Machine) error
		want   instance.Reason
	}{
		{"DomainGetXMLDesc", libvirt.ErrNoDomain, find, instance.ReasonInstanceNotFound},
		{"DomainGetXMLDesc", libvirt.ErrNoDomain, read, instance.ReasonInstanceNotFound},
		{"DomainGetState", libvirt.ErrNoDomain, find, instance.ReasonInstanceNotFound},
		{"DomainGetState", libvirt.ErrNoDomain, read, instance.ReasonInstanceNotFound},
		{"DomainIsPersistent", libvirt.ErrNoDomain, find, instance.ReasonInstanceNotFound},
		{"DomainIsPersistent", libvirt.ErrNoDomain, read, instance.ReasonInstanceNotFound},
		{"DomainLookupByName", libvirt.ErrSystemError, find, instance.ReasonLibvirtError},
		{"DomainGetXMLDesc", libvirt.ErrSystemError, find, instance.ReasonLibvirtError},
		{"DomainGetState", libvirt.ErrSystemError, find, instance.ReasonLibvirtError},
	} {
		t.Run(fmt.Sprintf("%s %d", tc.method, tc.number), func(t *testing.T) {
			// A host of its own: a call that one row left behind would take the
			// next row's failure.
			h, s := newHost(t, sim.Options{})
			m := boot(t, h, "proxy-1")
			s.FailMethod(tc.method, code(tc.number), 1)
			wantReason(t, tc.call(h, m), tc.want)
		})
	}
}

func TestFind_foreignDomainHasNoMark(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	for name, metadata := range map[string]string{
		"no-metadata": "",
		"foreign":     `<nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1" managed="true" owner="kvm2d"/>`,
		"broken":      `<instance xmlns="https://gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/kvm2" managed="true" owner="no label"/>`,
	} {
		defineForeign(t, s, name, metadata)
		m := find(t, h, name)
		if m.Mark != nil || m.Name != name || m.Power != instance.PowerOff {
			t.Errorf("%s: got %+v, want a machine without a mark", name, m)
		}
	}
}

// defineForeign defines a domain on the host behind our back.
func defineForeign(t *testing.T, s *sim.Host, name, metadata string) libvirt.Domain {
	t.Helper()
	conn, err := s.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	dom, err := conn.DomainDefineXML(t.Context(), `<domain type="qemu"><name>`+name+`</name><memory>1024</memory>`+
		`<metadata>`+metadata+`</metadata><os><type arch="x86_64" machine="q35">hvm</type></os></domain>`, 0)
	if err != nil {
		t.Fatalf("define %s: %v", name, err)
	}
	return dom
}

func TestFind_transientDomainIsNotPersistent(t *testing.T) {
	h, _ := newHost(t, sim.Options{})
	m := boot(t, h, "proxy-1")
	if err := h.Undefine(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if m = find(t, h, "proxy-1"); m.Persistent || m.Power != instance.PowerOn {
		t.Errorf("got %+v, want one that runs and is not persistent", m)
	}
}

func TestFindWithAddresses_sources(t *testing.T) {
	addr := func(name, mac, ip string) []libvirt.DomainInterface {
		return []libvirt.DomainInterface{
			{Name: "docker0", Hwaddr: libvirt.OptString{"02:42:00:00:00:01"}, Addrs: []libvirt.DomainIPAddr{{Addr: "172.17.0.1"}}},
			{Name: name, Hwaddr: libvirt.OptString{mac}, Addrs: []libvirt.DomainIPAddr{{Addr: ip}}},
		}
	}
	type says struct {
		ip  string
		err error
	}
	const (
		agent = libvirt.DomainInterfaceAddressesSrcAgent
		lease = libvirt.DomainInterfaceAddressesSrcLease
		arp   = libvirt.DomainInterfaceAddressesSrcArp
	)
	down := code(libvirt.ErrInternalError)
	for _, tc := range []struct {
		name    string
		answers map[libvirt.DomainInterfaceAddressesSource]says
		want    []string
	}{
		{"agent before lease before arp", map[libvirt.DomainInterfaceAddressesSource]says{
			agent: {ip: "10.0.0.3"}, lease: {ip: "10.0.0.2"}, arp: {ip: "10.0.0.1"},
		}, []string{"agent 10.0.0.3", "lease 10.0.0.2", "arp 10.0.0.1"}},
		{"agent is not up", map[libvirt.DomainInterfaceAddressesSource]says{
			agent: {err: code(libvirt.ErrAgentUnresponsive)}, lease: {ip: "10.0.0.2"}, arp: {err: down},
		}, []string{"lease 10.0.0.2"}},
		{"arp only", map[libvirt.DomainInterfaceAddressesSource]says{
			agent: {err: code(libvirt.ErrArgumentUnsupported)}, lease: {err: down}, arp: {ip: "10.0.0.1"},
		}, []string{"arp 10.0.0.1"}},
		{"all fail", map[libvirt.DomainInterfaceAddressesSource]says{
			agent: {err: down}, lease: {err: down}, arp: {err: down},
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, s := newHost(t, sim.Options{})
			boot(t, h, "proxy-1")
			mac := ownMAC(t, h, "proxy-1")
			for source, says := range tc.answers {
				if err := s.Answer("proxy-1", source, addr("x", mac, says.ip), says.err); err != nil {
					t.Fatal(err)
				}
			}
			m, err := h.FindWithAddresses(t.Context(), "proxy-1")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range m.Addresses {
				got = append(got, string(a.Source)+" "+a.Addr.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}

// ownMAC is the MAC of a running machine, learnt from its addresses.
func ownMAC(t *testing.T, h interface {
	FindWithAddresses(context.Context, string) (instance.Machine, error)
}, name string,
) string {
	t.Helper()
	m, err := h.FindWithAddresses(t.Context(), name)
	if err != nil || len(m.Addresses) == 0 {
		t.Fatalf("addresses of %s: %+v, %v", name, m.Addresses, err)
	}
	return m.Addresses[0].MAC
}

func TestFindWithAddresses_thoseThatHangCostThreeSecondsInAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHost(t, sim.Options{})
		boot(t, h, "proxy-1")
		release := s.Stall("DomainInterfaceAddresses")
		defer release()
		began := time.Now()
		m, err := h.FindWithAddresses(t.Context(), "proxy-1")
		release()
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Addresses) != 0 {
			t.Errorf("got %v, want none", m.Addresses)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("took %s, want at most 3s", took)
		}
	})
}

func TestFindWithAddresses_agentThatHangsCostsTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHost(t, sim.Options{}, onNetwork)
		boot(t, h, "proxy-1")
		hang := make(chan struct{})
		var asked atomic.Int32
		s.OnCall(func(c sim.Call) error {
			// The agent has a session of its own: its calls are the ones not on the first.
			if c.Method == "DomainInterfaceAddresses" && c.Conn != 1 {
				asked.Add(1)
				<-hang
			}
			return nil
		})
		began := time.Now()
		m, err := h.FindWithAddresses(t.Context(), "proxy-1")
		took := time.Since(began)
		close(hang)
		if err != nil || len(m.Addresses) == 0 || m.Addresses[0].Source != instance.SourceLease {
			t.Errorf("got %v, %v, want the lease", m.Addresses, err)
		}
		if took != 2*time.Second || asked.Load() == 0 {
			t.Errorf("took %s, %d asked, want 2s", took, asked.Load())
		}
	})
}

func TestFindWithAddresses_stoppedIsNotAsked(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	define(t, h, "proxy-1")
	s.ResetCalls()
	m, err := h.FindWithAddresses(t.Context(), "proxy-1")
	if err != nil || m.Addresses != nil {
		t.Errorf("got %v, %v, want no addresses", m.Addresses, err)
	}
	want := map[string]int{"DomainLookupByName": 1, "DomainGetXMLDesc": 1, "DomainGetState": 1}
	if diff := cmp.Diff(want, s.CallCounts()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestFindWithAddresses_twoRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHost(t, sim.Options{})
		boot(t, h, "proxy-1")
		warmUp(t, h, "proxy-1")
		const roundTrip = 20 * time.Millisecond
		s.Slow(roundTrip)
		began := time.Now()
		m, err := h.FindWithAddresses(t.Context(), "proxy-1")
		if err != nil || len(m.Addresses) == 0 {
			t.Fatalf("got %v, %v, want addresses", m.Addresses, err)
		}
		if got := time.Since(began); got != 2*roundTrip {
			t.Errorf("took %s, want two round trips of %s", got, roundTrip)
		}
	})
}

// warmUp has every session dialed.
func warmUp(t *testing.T, h interface {
	FindWithAddresses(context.Context, string) (instance.Machine, error)
}, name string,
) {
	t.Helper()
	if _, err := h.FindWithAddresses(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

func TestFind_returnsPromptlyWhenCancelled(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	boot(t, h, "proxy-1")
	defer s.Stall("DomainGetXMLDesc")()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := h.FindWithAddresses(ctx, "proxy-1")
	wantReason(t, err, instance.ReasonTimeout)
}

// TestFind_deletingAsStoredOnly: a delete that found a machine off has marked
// its definition, and a start that was under way runs it as it was before.
func TestFind_deletingAsStoredOnly(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	boot(t, h, "proxy-1")
	off := find(t, h, "proxy-1")
	off.Power = instance.PowerOff
	mark := *off.Mark
	mark.Deleting = true
	if err := h.SetMark(t.Context(), off, mark); err != nil {
		t.Fatal(err)
	}
	if d, _ := s.Domain("proxy-1"); strings.Contains(d.XML, "deleting=") || !strings.Contains(d.StoredXML, "deleting=") {
		t.Fatalf("got %s\n%s\nwant only the stored one marked", d.XML, d.StoredXML)
	}
	for how, read := range map[string]func() (instance.Machine, error){
		"found": func() (instance.Machine, error) { return h.Find(t.Context(), "proxy-1") },
		"read":  func() (instance.Machine, error) { return h.Read(t.Context(), off) },
	} {
		if m, err := read(); err != nil || !m.Mark.Deleting || m.Power != instance.PowerOn {
			t.Errorf("%s: got %+v with mark %+v, %v, want it running and being deleted", how, m, m.Mark, err)
		}
	}
}
