package libvirtx_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

const markURI = "https://gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/kvm2"

func names(l instance.Listing) []string {
	var out []string
	for _, m := range l.Machines {
		out = append(out, m.Name)
	}
	return out
}

func list(t *testing.T, h *libvirtx.Host) instance.Listing {
	t.Helper()
	l, err := h.List(t.Context())
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	return l
}

func TestList_onlyOurMarkedDomainsByName(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	for _, name := range []string{"zeta", "alpha", "mid"} {
		define(t, h, name)
	}
	defineForeign(t, s, "unmarked", "")
	defineForeign(t, s, "empty", " \n ")
	defineForeign(t, s, "nova", `<nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1"/>`)
	defineForeign(t, s, "other-owner", `<instance xmlns="`+markURI+`" managed="true" owner="cluster-b" uid="u"/>`)
	defineForeign(t, s, "no-uid", `<instance xmlns="`+markURI+`" managed="true" owner="kvm2d"/>`)
	defineForeign(t, s, "broken-mark", `<instance xmlns="`+markURI+`" managed="true" owner="kvm2d" createdAt="once"/>`)
	defineForeign(t, s, "No.Label", `<instance xmlns="`+markURI+`" managed="true" owner="kvm2d"/>`)

	got := list(t, h)
	if diff := cmp.Diff([]string{"alpha", "mid", "no-uid", "zeta"}, names(got)); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if got.Skipped != 1 {
		t.Errorf("got %d skipped, want the broken mark", got.Skipped)
	}
	if got.Machines[2].Mark.UID != "" {
		t.Errorf("got uid %q, want none", got.Machines[2].Mark.UID)
	}
}

func TestList_agreesWithFind(t *testing.T) {
	for name, change := range map[string]func(*libvirtx.HostOptions){"bridge": func(*libvirtx.HostOptions) {}, "network": onNetwork} {
		t.Run(name, func(t *testing.T) {
			h, _ := newHost(t, sim.Options{}, change)
			define(t, h, "off")
			boot(t, h, "on")
			gone := boot(t, h, "transient")
			if err := h.Undefine(t.Context(), gone); err != nil {
				t.Fatal(err)
			}
			for _, got := range list(t, h).Machines {
				want, err := h.FindWithAddresses(t.Context(), got.Name)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
					t.Errorf("%s (-find +list):\n%s", got.Name, diff)
				}
				if on := got.Name != "off"; on != (len(got.Addresses) > 0) || got.Persistent != (got.Name != "transient") {
					t.Errorf("got %+v", got)
				}
			}
		})
	}
}

func TestList_vanishedIsSkippedAnyOtherFailureFails(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	boot(t, h, "a")
	boot(t, h, "b")
	for _, method := range []string{"DomainGetXMLDesc", "DomainIsPersistent"} {
		s.Inject(sim.Fault{Method: method, Object: "a", Err: code(libvirt.ErrNoDomain)})
		got := list(t, h)
		if diff := cmp.Diff([]string{"b"}, names(got)); diff != "" || got.Skipped != 1 {
			t.Errorf("%s: got %d skipped, names (-want +got):\n%s", method, got.Skipped, diff)
		}
	}
	for _, method := range []string{"ConnectGetAllDomainStats", "DomainGetXMLDesc", "DomainIsPersistent"} {
		// A host of its own: a call that the list before gave up could meet the fault.
		h, s := newHost(t, sim.Options{})
		boot(t, h, "a")
		boot(t, h, "b")
		s.FailMethod(method, code(libvirt.ErrSystemError), 1)
		_, err := h.List(t.Context())
		wantReason(t, err, instance.ReasonLibvirtError)
	}
}

func TestList_addressFailureIsNoAnswer(t *testing.T) {
	h, s := newHost(t, sim.Options{}, onNetwork)
	boot(t, h, "a")
	for _, method := range []string{"NetworkLookupByName", "NetworkGetDhcpLeases", "DomainInterfaceAddresses"} {
		s.FailMethod(method, code(libvirt.ErrInternalError), -1)
	}
	if got := list(t, h); len(got.Machines) != 1 || got.Machines[0].Addresses != nil {
		t.Errorf("got %+v, want one machine without addresses", got)
	}
}

func TestList_leasesOncePerNetworkAgentsOncePerHalfMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHost(t, sim.Options{}, onNetwork)
		const running = 5
		for i := range running {
			boot(t, h, fmt.Sprintf("on-%d", i))
		}
		define(t, h, "off")
		for _, tc := range []struct {
			wait      time.Duration
			wantAsked int
		}{
			{0, 2 * running}, {29 * time.Second, 0}, {2 * time.Second, 2 * running},
		} {
			time.Sleep(tc.wait)
			s.ResetCalls()
			for _, m := range list(t, h).Machines {
				if m.Power == instance.PowerOn && m.Addresses[0].Source != instance.SourceAgent {
					t.Errorf("got %+v, want the agent's", m.Addresses)
				}
			}
			if got := s.Calls("NetworkGetDhcpLeases"); got != 1 {
				t.Errorf("got %d calls for leases, want 1", got)
			}
			if got := s.Calls("DomainInterfaceAddresses"); got != tc.wantAsked {
				t.Errorf("after %s: got %d domains asked, want %d", tc.wait, got, tc.wantAsked)
			}
		}
	})
}

func TestList_restartedDomainIsAskedAgain(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	m := boot(t, h, "a")
	list(t, h)
	if err := errors.Join(h.Stop(t.Context(), m), h.Start(t.Context(), m, false)); err != nil {
		t.Fatal(err)
	}
	s.ResetCalls()
	list(t, h)
	if s.Calls("DomainInterfaceAddresses") == 0 {
		t.Error("an answer of the run before was taken")
	}
}

func TestList_roundTripsDoNotGrowWithDomains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHost(t, sim.Options{}, onNetwork)
		for i := range 200 {
			define(t, h, fmt.Sprintf("off-%d", i))
		}
		for i := range 20 {
			boot(t, h, fmt.Sprintf("on-%d", i))
		}
		list(t, h)
		const roundTrip = 20 * time.Millisecond
		s.Slow(roundTrip)
		began := time.Now()
		list(t, h)
		if got := time.Since(began); got > 4*roundTrip {
			t.Errorf("took %s, want at most four round trips of %s", got, roundTrip)
		}
	})
}

// Of a host with more than anybody runs, only so much is asked at once.
func TestList_readsUnderWayAreBounded(t *testing.T) {
	const domains, volumes = 300, 100
	synctest.Test(t, func(t *testing.T) {
		h, s := newHost(t, sim.Options{})
		for i := range domains {
			define(t, h, fmt.Sprintf("off-%d", i))
		}
		for i := range volumes {
			s.AddVolume(fmt.Sprintf("log-%d", i), nil)
		}
		for _, tc := range []struct {
			method      string
			read        func(context.Context) error
			most, total int
		}{
			{"DomainGetXMLDesc", func(ctx context.Context) error { _, err := h.List(ctx); return err }, 256, domains},
			{"StorageVolGetXMLDesc", func(ctx context.Context) error { _, err := h.Volumes(ctx, "log-"); return err }, 64, volumes},
		} {
			s.ResetCalls()
			release := s.Stall(tc.method)
			read := make(chan error, 1)
			go func() { read <- tc.read(t.Context()) }()
			synctest.Wait()
			if got := s.Calls(tc.method); got == 0 || got > tc.most {
				t.Errorf("got %d calls of %s under way, want at most %d", got, tc.method, tc.most)
			}
			release()
			if err := <-read; err != nil || s.Calls(tc.method) != tc.total {
				t.Errorf("got %d calls of %s, %v, want %d in all", s.Calls(tc.method), tc.method, err, tc.total)
			}
		}
	})
}

func TestList_agentsThatHangCostThreeSecondsInAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHost(t, sim.Options{})
		for i := range 20 {
			boot(t, h, fmt.Sprintf("on-%d", i))
		}
		release := s.Stall("DomainInterfaceAddresses")
		defer release()
		began := time.Now()
		got := list(t, h)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("took %s, want at most 3s", took)
		}
		release()
		if len(got.Machines) != 20 {
			t.Errorf("got %d machines, want 20", len(got.Machines))
		}
	})
}

func TestList_cancelledDuringAddressesFails(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	boot(t, h, "a")
	defer s.Stall("DomainInterfaceAddresses")()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := h.List(ctx)
	wantReason(t, err, instance.ReasonTimeout)
}
