package libvirtx

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const (
	ownMAC   = "02:00:00:00:00:01"
	otherMAC = "02:42:ac:11:00:01"
)

var addrComparer = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func iface(name, mac string, addrs ...string) libvirt.DomainInterface {
	out := libvirt.DomainInterface{Name: name}
	if mac != "" {
		out.Hwaddr = libvirt.OptString{mac}
	}
	for _, a := range addrs {
		out.Addrs = append(out.Addrs, libvirt.DomainIPAddr{Addr: a})
	}
	return out
}

func TestInterfaceAddresses_onlyTheDomainsOwnCards(t *testing.T) {
	for _, tc := range []struct {
		name   string
		ifaces []libvirt.DomainInterface
		want   []string
	}{
		{"nothing", nil, nil},
		{"docker0, cni0 and lo", []libvirt.DomainInterface{
			iface("lo", "00:00:00:00:00:00", "127.0.0.1", "::1"),
			iface("docker0", otherMAC, "172.17.0.1"),
			iface("eth0", "02:00:00:00:00:01", "10.0.0.5"),
			iface("cni0", "0a:58:0a:f4:00:01", "10.244.0.1"),
		}, []string{"10.0.0.5"}},
		{"no hardware address", []libvirt.DomainInterface{iface("tun0", "", "10.8.0.2")}, nil},
		{"no address", []libvirt.DomainInterface{iface("eth0", ownMAC)}, nil},
		{"upper case", []libvirt.DomainInterface{iface("eth0", "02:00:00:00:00:01", "10.0.0.5")}, []string{"10.0.0.5"}},
		{"only link-local", []libvirt.DomainInterface{iface("eth0", ownMAC, "fe80::1", "169.254.1.1")}, nil},
		{"IPv6 only", []libvirt.DomainInterface{iface("eth0", ownMAC, "fe80::1", "2001:db8::5")}, []string{"2001:db8::5"}},
		{"rubbish", []libvirt.DomainInterface{iface("eth0", ownMAC, "", "1.2.3", "10.0.0.5/24", "0.0.0.0", "224.0.0.1", "10.0.0.6")}, []string{"10.0.0.6"}},
		{"zone of any text", []libvirt.DomainInterface{iface("eth0", ownMAC, "2001:db8::5%\x1b[2J", "2001:db8::6")}, []string{"2001:db8::6"}},
		{"mapped", []libvirt.DomainInterface{iface("eth0", ownMAC, "::ffff:10.0.0.7", "::ffff:127.0.0.1")}, []string{"10.0.0.7"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, a := range interfaceAddresses(tc.ifaces, instance.SourceAgent, []string{ownMAC}) {
				if a.Source != instance.SourceAgent || a.MAC != ownMAC {
					t.Errorf("got %+v, want source agent and MAC %s", a, ownMAC)
				}
				got = append(got, a.Addr.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInterfaceAddresses_keepsSoManyOfAGuestThatClaimsMore(t *testing.T) {
	var claimed []string
	for i := range 5000 {
		claimed = append(claimed, netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String())
	}
	got := interfaceAddresses([]libvirt.DomainInterface{iface("eth0", ownMAC, claimed...)}, instance.SourceAgent, []string{ownMAC})
	if len(got) != maxAddresses {
		t.Errorf("got %d, want %d", len(got), maxAddresses)
	}
}

func TestLeaseAddresses(t *testing.T) {
	leases := []libvirt.NetworkDhcpLease{
		{Mac: libvirt.OptString{otherMAC}, Ipaddr: "10.0.0.4"},
		{Mac: libvirt.OptString{"02:00:00:00:00:01"}, Ipaddr: "10.0.0.5"},
		{Ipaddr: "10.0.0.6"},
		{Mac: libvirt.OptString{ownMAC}, Ipaddr: "soon"},
	}
	got := leaseAddresses(leases, []string{ownMAC})
	want := []instance.Address{{Addr: netip.MustParseAddr("10.0.0.5"), Source: instance.SourceLease, MAC: ownMAC}}
	if diff := cmp.Diff(want, got, addrComparer); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

func TestMergeAddresses_bestSourceKeepsWhatSeveralKnow(t *testing.T) {
	a := func(ip string, s instance.AddressSource) instance.Address {
		return instance.Address{Addr: netip.MustParseAddr(ip), Source: s, MAC: ownMAC}
	}
	got := mergeAddresses(
		[]instance.Address{a("10.0.0.5", instance.SourceAgent), a("2001:db8::5", instance.SourceAgent)},
		[]instance.Address{a("10.0.0.5", instance.SourceLease), a("10.0.0.6", instance.SourceLease)},
		[]instance.Address{a("10.0.0.6", instance.SourceARP)},
	)
	want := []instance.Address{
		a("10.0.0.5", instance.SourceAgent), a("2001:db8::5", instance.SourceAgent), a("10.0.0.6", instance.SourceLease),
	}
	if diff := cmp.Diff(want, got, addrComparer); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

func TestAgentCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c agentCache
		first := agentKey{uuid: libvirt.UUID{1}, id: 1}
		addrs := []instance.Address{{Addr: netip.MustParseAddr("10.0.0.5")}}
		c.put(first, addrs)
		if got, ok := c.get(first); !ok || len(got) != 1 {
			t.Errorf("got %v, %v, want what was put", got, ok)
		}
		if _, ok := c.get(agentKey{uuid: libvirt.UUID{1}, id: 2}); ok {
			t.Error("an answer of an earlier run of the domain")
		}
		time.Sleep(agentCacheAge + time.Nanosecond)
		if _, ok := c.get(first); ok {
			t.Error("an answer that is too old")
		}
		for i := range int32(2 * agentCacheSize) {
			c.put(agentKey{id: i}, addrs)
		}
		if got := len(c.byKey); got > agentCacheSize {
			t.Errorf("got %d entries, want at most %d", got, agentCacheSize)
		}
	})
}

// TestAgentCache_fullLosesTheOldFirst: what is too old makes room, and what was
// said a moment ago stays.
func TestAgentCache_fullLosesTheOldFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c agentCache
		halfFull := func(uuid byte) {
			for i := range int32(agentCacheSize / 2) {
				c.put(agentKey{uuid: libvirt.UUID{uuid}, id: i}, nil)
			}
		}
		halfFull(1)
		time.Sleep(agentCacheAge / 2)
		halfFull(2)
		time.Sleep(agentCacheAge/2 + time.Nanosecond)
		c.put(agentKey{uuid: libvirt.UUID{3}}, nil)
		for _, uuid := range []byte{2, 3} {
			if _, ok := c.get(agentKey{uuid: libvirt.UUID{uuid}}); !ok {
				t.Errorf("an answer of domain %d that is not too old is gone", uuid)
			}
		}
	})
}
