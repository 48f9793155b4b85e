package sim

import (
	"context"
	"net/netip"

	libvirt "github.com/digitalocean/go-libvirt"
)

// answer is what a test has an address source say.
type answer struct {
	interfaces []libvirt.DomainInterface
	err        error
}

func (c *conn) DomainInterfaceAddresses(
	ctx context.Context, dom libvirt.Domain, source libvirt.DomainInterfaceAddressesSource,
) (out []libvirt.DomainInterface, err error) {
	err = c.onDomain(ctx, "DomainInterfaceAddresses", dom, func(d *domain) (err error) {
		out, err = c.host.addresses(d, source)
		return err
	})
	return out, err
}

func (h *Host) addresses(d *domain, source libvirt.DomainInterfaceAddressesSource) ([]libvirt.DomainInterface, error) {
	if d.live == nil {
		return nil, invalid("domain is not running")
	}
	if a, ok := d.answers[source]; ok {
		return a.interfaces, a.err
	}
	switch source {
	case libvirt.DomainInterfaceAddressesSrcLease:
		return h.leases(d), nil
	case libvirt.DomainInterfaceAddressesSrcAgent:
		return h.agentAddresses(d)
	case libvirt.DomainInterfaceAddressesSrcArp:
		return h.arpTable(d), nil
	default:
		return nil, fail(libvirt.ErrArgumentUnsupported, "argument unsupported: Unknown IP address data source %d", source)
	}
}

// leases knows cards on libvirt's own networks only.
func (h *Host) leases(d *domain) (out []libvirt.DomainInterface) {
	if !h.booted(d) || d.silent[libvirt.DomainInterfaceAddressesSrcLease] {
		return nil
	}
	for _, n := range d.live.nics {
		if n.network != "" {
			out = append(out, h.seen(n, n.tap, h.opts.Subnet.Bits()))
		}
	}
	return out
}

// arpTable lags behind, and knows no prefixes.
func (h *Host) arpTable(d *domain) (out []libvirt.DomainInterface) {
	if h.now().Before(d.startedAt.Add(h.opts.BootDelay+h.opts.ARPDelay)) || d.silent[libvirt.DomainInterfaceAddressesSrcArp] {
		return nil
	}
	for _, n := range d.live.nics {
		out = append(out, h.seen(n, n.tap, 0))
	}
	return out
}

// agentAddresses is what the guest says of itself: loopback and IPv6 too.
func (h *Host) agentAddresses(d *domain) ([]libvirt.DomainInterface, error) {
	switch {
	case !d.live.agent:
		return nil, fail(libvirt.ErrArgumentUnsupported, "argument unsupported: QEMU guest agent is not configured")
	case d.state != libvirt.DomainRunning:
		return nil, invalid("domain is not running")
	case !h.agentUp(d):
		return nil, fail(libvirt.ErrAgentUnresponsive, "Guest agent is not responding: QEMU guest agent is not connected")
	}
	out := []libvirt.DomainInterface{{
		Name: "lo", Hwaddr: libvirt.OptString{"00:00:00:00:00:00"},
		Addrs: []libvirt.DomainIPAddr{{Addr: "127.0.0.1", Prefix: 8}, {Type: 1, Addr: "::1", Prefix: 128}},
	}}
	for i, n := range d.live.nics {
		guest := h.seen(n, "enp"+string(rune('1'+i%9))+"s0", h.opts.Subnet.Bits())
		guest.Addrs = append(guest.Addrs, libvirt.DomainIPAddr{Type: 1, Addr: linkLocal(h.addrs.of(n.mac)), Prefix: 64})
		out = append(out, guest)
	}
	return out, nil
}

// seen is a network card with its IPv4 address.
func (h *Host) seen(n nic, name string, prefix int) libvirt.DomainInterface {
	return libvirt.DomainInterface{
		Name:   name,
		Hwaddr: libvirt.OptString{n.mac},
		Addrs:  []libvirt.DomainIPAddr{{Addr: h.addrs.of(n.mac).String(), Prefix: uint32(prefix)}},
	}
}

// linkLocal is some IPv6 address in fe80::/64 that goes with a.
func linkLocal(a netip.Addr) string {
	b := [16]byte{0: 0xfe, 1: 0x80}
	copy(b[12:], a.AsSlice())
	return netip.AddrFrom16(b).String()
}
