package sim

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
)

// network is a libvirt network.
type network struct {
	name   string
	uuid   libvirt.UUID
	bridge string
	active bool
}

func bridgeName(i int) string { return fmt.Sprintf("virbr%d", i) }

// leaseLife is how long a lease of the simulated DHCP server lasts.
const leaseLife = time.Hour

// addressBook gives each MAC an address for as long as it is in use.
type addressBook struct {
	prefix netip.Prefix
	next   netip.Addr
	byMAC  map[string]netip.Addr
	taken  map[netip.Addr]bool
}

// firstGuest is the offset of the first address that is given away; what is
// before it belongs to gateways.
const firstGuest = 10

func newAddressBook(p netip.Prefix) *addressBook {
	a := p.Addr()
	for range firstGuest {
		a = a.Next()
	}
	return &addressBook{prefix: p, next: a, byMAC: map[string]netip.Addr{}, taken: map[netip.Addr]bool{}}
}

// of returns the address of mac, the zero Addr when the subnet is used up.
func (b *addressBook) of(mac string) netip.Addr {
	if a, ok := b.byMAC[mac]; ok {
		return a
	}
	network := b.prefix.Masked().Addr()
	for range 1 << min(20, b.prefix.Addr().BitLen()-b.prefix.Bits()) {
		a := b.next
		b.next = a.Next()
		if !b.prefix.Contains(b.next) {
			b.next = network.Next()
		}
		if last := a.AsSlice()[3]; last == 0 || last == 255 || b.taken[a] {
			continue
		}
		b.byMAC[mac], b.taken[a] = a, true
		return a
	}
	return netip.Addr{}
}

func (b *addressBook) release(mac string) {
	delete(b.taken, b.byMAC[mac])
	delete(b.byMAC, mac)
}

// SetNetworkActive starts or stops a network; one that is not there is made.
func (h *Host) SetNetworkActive(name string, active bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.networks[name]; n != nil {
		n.active = active
		return
	}
	h.networks[name] = &network{
		name: name, uuid: h.idFor("network/" + name), bridge: bridgeName(len(h.networks)), active: active,
	}
}

// RemoveNetwork makes the host forget a network.
func (h *Host) RemoveNetwork(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.networks, name)
}

// SetBridges replaces the host's bridges.
func (h *Host) SetBridges(names ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bridges = slices.Clone(names)
}

func noNetwork(name string) error {
	return fail(libvirt.ErrNoNetwork, "Network not found: no network with matching name '%s'", name)
}

func (c *conn) network(n libvirt.Network) (*network, error) {
	for _, have := range c.host.networks {
		if have.uuid == n.UUID {
			return have, nil
		}
	}
	return nil, fail(libvirt.ErrNoNetwork, "Network not found: no network with matching uuid '%s' (%s)", uuid.UUID(n.UUID), n.Name)
}

func (c *conn) NetworkLookupByName(ctx context.Context, name string) (out libvirt.Network, err error) {
	err = c.call(ctx, "NetworkLookupByName", name, func() error {
		n := c.host.networks[name]
		if n == nil {
			return noNetwork(name)
		}
		out = libvirt.Network{Name: n.name, UUID: n.uuid}
		return nil
	})
	return out, err
}

func (c *conn) NetworkIsActive(ctx context.Context, net libvirt.Network) (active bool, err error) {
	err = c.call(ctx, "NetworkIsActive", net.Name, func() error {
		n, err := c.network(net)
		if err == nil {
			active = n.active
		}
		return err
	})
	return active, err
}

func (c *conn) NetworkGetDhcpLeases(ctx context.Context, net libvirt.Network) (out []libvirt.NetworkDhcpLease, err error) {
	err = c.call(ctx, "NetworkGetDhcpLeases", net.Name, func() error {
		n, err := c.network(net)
		if err != nil {
			return err
		}
		for _, d := range c.host.sortedDomains() {
			if d.live == nil || !c.host.booted(d) || d.silent[libvirt.DomainInterfaceAddressesSrcLease] {
				continue
			}
			for _, nic := range d.live.nics {
				if nic.network == n.name {
					out = append(out, c.host.lease(d, n, nic))
				}
			}
		}
		return nil
	})
	return out, err
}

func (h *Host) lease(d *domain, n *network, nic nic) libvirt.NetworkDhcpLease {
	return libvirt.NetworkDhcpLease{
		Iface:      n.bridge,
		Expirytime: h.now().Add(leaseLife).Unix(),
		Mac:        libvirt.OptString{nic.mac},
		Ipaddr:     h.addrs.of(nic.mac).String(),
		Prefix:     uint32(h.opts.Subnet.Bits()),
		Hostname:   libvirt.OptString{d.name},
	}
}

func (c *conn) InterfaceLookupByName(ctx context.Context, name string) (out libvirt.Interface, err error) {
	err = c.call(ctx, "InterfaceLookupByName", name, func() error {
		if c.host.opts.NoInterfaceDriver {
			return fail(libvirt.ErrNoSupport, "this function is not supported by the connection driver: virInterfaceLookupByName")
		}
		if !slices.Contains(c.host.bridges, name) {
			return fail(libvirt.ErrNoInterface, "Interface not found: couldn't find interface named '%s'", name)
		}
		out = libvirt.Interface{Name: name, Mac: "02:00:00:00:00:01"}
		return nil
	})
	return out, err
}
