package libvirtx

import (
	"context"
	"slices"
	"sync"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// addressWait bounds how long a read of one machine or a whole list waits for
// addresses, whoever is asked. The link's own limit for agents lies below.
const addressWait = 3 * time.Second

// listAddresses fills in the addresses of those that run. Leases come once per
// network, agents and neighbours once per domain, all side by side; what fails
// or comes too late is no answer.
func (h *Host) listAddresses(ctx context.Context, domains []*listed) {
	ctx, cancel := context.WithTimeout(ctx, addressWait)
	defer cancel()
	var wg sync.WaitGroup
	leases := h.startLeases(ctx, &wg, domains)
	asked := make([]addressAsk, 0, len(domains))
	for _, d := range domains {
		if d.machine.Power == instance.PowerOn {
			asked = append(asked, addressAsk{listed: d})
		}
	}
	for i := range asked {
		h.startAddresses(ctx, &wg, &asked[i])
	}
	wg.Wait()
	for i := range asked {
		a := &asked[i]
		a.machine.Addresses = mergeAddresses(a.agent, leases.ofCards(a.view), a.arp)
	}
}

// addressAsk collects what the guest's agent and the host's neighbour table say of one domain.
type addressAsk struct {
	*listed
	agent, arp []instance.Address
}

// startAddresses asks in goroutines of wg. An agent's answer of the last
// seconds stands for it, and for the neighbour table, which knows less.
func (h *Host) startAddresses(ctx context.Context, wg *sync.WaitGroup, a *addressAsk) {
	key := agentKey{uuid: a.record.Dom.UUID, id: a.record.Dom.ID}
	if known, ok := h.agents.get(key); ok {
		a.agent = known
		return
	}
	ask := func(source libvirt.DomainInterfaceAddressesSource, name instance.AddressSource) []instance.Address {
		ifaces, err := h.be.DomainInterfaceAddresses(ctx, a.record.Dom, source)
		if err != nil {
			return nil
		}
		return interfaceAddresses(ifaces, name, a.view.MACs)
	}
	h.aside(wg, func() {
		a.agent = ask(libvirt.DomainInterfaceAddressesSrcAgent, instance.SourceAgent)
		// One without an IPv4 is a guest that still comes up.
		if hasIPv4(a.agent) {
			h.agents.put(key, a.agent)
		}
	})
	h.aside(wg, func() { a.arp = ask(libvirt.DomainInterfaceAddressesSrcArp, instance.SourceARP) })
}

// aside runs work in a goroutine of wg, which nothing fails for: a panic is no
// answer, too.
func (h *Host) aside(wg *sync.WaitGroup, work func()) {
	wg.Go(func() {
		err := instance.Guard(func() error {
			work()
			return nil
		})
		if stack, ok := instance.PanicStack(err); ok {
			h.log.Error("reading addresses panicked", "error", err, "stack", stack)
		}
	})
}

// leasesByNetwork are the leases of each network that a list asked.
type leasesByNetwork struct {
	names  []string
	leases [][]libvirt.NetworkDhcpLease
}

// startLeases asks, in goroutines of wg, every network that a running domain is plugged into.
func (h *Host) startLeases(ctx context.Context, wg *sync.WaitGroup, domains []*listed) *leasesByNetwork {
	out := &leasesByNetwork{}
	for _, d := range domains {
		if d.machine.Power != instance.PowerOn {
			continue
		}
		for _, name := range d.view.Networks {
			if !slices.Contains(out.names, name) {
				out.names = append(out.names, name)
			}
		}
	}
	out.leases = make([][]libvirt.NetworkDhcpLease, len(out.names))
	for i, name := range out.names {
		h.aside(wg, func() {
			_ = h.withNetwork(ctx, name, func(network libvirt.Network) (err error) {
				out.leases[i], err = h.be.NetworkGetDhcpLeases(ctx, network)
				return err
			})
		})
	}
	return out
}

// ofCards keeps the leases of a domain's own cards, on the networks it is plugged into.
func (l *leasesByNetwork) ofCards(view domainView) []instance.Address {
	var out []instance.Address
	for i, name := range l.names {
		if slices.Contains(view.Networks, name) {
			out = append(out, leaseAddresses(l.leases[i], view.MACs)...)
		}
	}
	return out
}
