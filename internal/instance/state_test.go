package instance

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestMapState_table(t *testing.T) {
	for _, tt := range []struct {
		name   string
		power  Power
		hasIP  bool
		want   State
		reason string
	}{
		{"no state", PowerUnknown, false, Provisioning, whyNoState},
		{"on without an address", PowerOn, false, Provisioning, whyNoAddress},
		{"on with an address", PowerOn, true, Running, ""},
		{"paused", PowerPaused, true, Stopped, "in the host's words"},
		{"off", PowerOff, true, Stopped, "in the host's words"},
		{"a code from the future", Power(99), true, Stopped, "in the host's words"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := Machine{Name: "vm", Mark: &Mark{}, Power: tt.power, PowerReason: "in the host's words"}
			if tt.hasIP {
				m.Addresses = []Address{{Addr: netip.MustParseAddr("10.0.0.1")}}
			}
			got := (&Service{}).instance("h", m)
			if got.State != tt.want || got.StateReason != tt.reason {
				t.Errorf("got %s (%s), want %s (%s)", got.State, got.StateReason, tt.want, tt.reason)
			}
			if got.IP.IsValid() != (tt.want == Running) || (got.Addresses != nil) != (tt.want == Running) {
				t.Errorf("got IP %s and addresses %v in state %s", got.IP, got.Addresses, got.State)
			}
			m.Mark.Deleting = true
			if got := (&Service{}).instance("h", m); got.State != tt.want || got.StateReason != whyDeleting {
				t.Errorf("deleting: got %s (%s), want %s and why", got.State, got.StateReason, tt.want)
			}
		})
	}
}

func TestFirstIPv4_filters(t *testing.T) {
	at := func(source AddressSource, addrs ...string) []Address {
		var out []Address
		for _, a := range addrs {
			out = append(out, Address{Addr: netip.MustParseAddr(a), Source: source})
		}
		return out
	}
	join := func(parts ...[]Address) (out []Address) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	for _, tt := range []struct {
		name string
		in   []Address
		want string
		all  []string
	}{
		{"none", nil, "", nil},
		{"loopback and link-local", at(SourceAgent, "127.0.0.1", "169.254.1.1", "::1", "fe80::1", "0.0.0.0", "224.0.0.1"), "", nil},
		{"IPv6 is listed, not the ip", at(SourceAgent, "2001:db8::1"), "", []string{"2001:db8::1"}},
		{"first good one", at(SourceAgent, "127.0.0.1", "10.0.0.2", "10.0.0.3"), "10.0.0.2", []string{"10.0.0.2", "10.0.0.3"}},
		{
			"agent before lease before arp", join(at(SourceARP, "10.0.0.3"), at(SourceLease, "10.0.0.2"), at(SourceAgent, "10.0.0.1")),
			"10.0.0.1",
			[]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"},
		},
		{
			"lease when the agent has none", join(at(SourceARP, "10.0.0.3"), at(SourceLease, "10.0.0.2"), at(SourceAgent, "fe80::1")),
			"10.0.0.2",
			[]string{"10.0.0.2", "10.0.0.3"},
		},
		{"IPv4 in IPv6", at(SourceAgent, "::ffff:10.0.0.1"), "10.0.0.1", []string{"10.0.0.1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			good := reachable(tt.in)
			var all []string
			for _, a := range good {
				all = append(all, a.Addr.String())
			}
			if diff := cmp.Diff(tt.all, all); diff != "" {
				t.Errorf("reachable (-want +got)\n%s", diff)
			}
			want, _ := netip.ParseAddr(tt.want)
			if diff := cmp.Diff(want, firstIPv4(good), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("firstIPv4 (-want +got)\n%s", diff)
			}
		})
	}
}
