package libvirtx

import (
	"context"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// stoppedID is the ID that libvirt gives to a domain that does not run.
const stoppedID = -1

// Find reads the machine of that name, ours or not, in two round trips: its
// handle, then all the rest side by side. Absent: InstanceNotFound.
func (h *Host) Find(ctx context.Context, name string) (instance.Machine, error) {
	return h.find(ctx, name, false)
}

// FindWithAddresses is Find, with the addresses asked for beside the rest: two
// round trips and what the guest's agent takes, at most the link's limit.
func (h *Host) FindWithAddresses(ctx context.Context, name string) (instance.Machine, error) {
	return h.find(ctx, name, true)
}

func (h *Host) find(ctx context.Context, name string, addresses bool) (instance.Machine, error) {
	const op = "read domain"
	dom, err := h.be.DomainLookupByName(ctx, name)
	if err != nil {
		return instance.Machine{}, h.fail(op, name, err)
	}
	m, view, answers, err := h.readDomain(ctx, dom, addresses && dom.ID != stoppedID)
	if err != nil {
		return instance.Machine{}, h.fail(op, name, err)
	}
	if m.Power == instance.PowerOn {
		m.Addresses = answers.ofCards(view.MACs)
	}
	return m, nil
}

// readDomain reads all that Machine holds, side by side.
func (h *Host) readDomain(ctx context.Context, dom libvirt.Domain, addresses bool) (instance.Machine, domainView, addressAnswers, error) {
	var (
		doc           string
		state, reason int32
		persistent    = true
		answers       addressAnswers
	)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		doc, err = h.be.DomainGetXMLDesc(gctx, dom, 0)
		return err
	})
	g.Go(func() (err error) {
		state, reason, err = h.be.DomainGetState(gctx, dom)
		return err
	})
	// A domain that does not run exists by its definition alone.
	if dom.ID != stoppedID {
		g.Go(func() (err error) {
			persistent, err = h.be.DomainIsPersistent(gctx, dom)
			return err
		})
	}
	if addresses {
		h.askAddresses(gctx, g, dom, &answers)
	}
	if err := g.Wait(); err != nil {
		return instance.Machine{}, domainView{}, addressAnswers{}, err
	}
	view, err := parseDomain(doc)
	if err != nil {
		h.log.Log(ctx, instance.LevelDetail, "domain cannot be read, taken for somebody else's",
			"domain", dom.Name, "error", err)
	}
	m := machineOf(dom, view, persistent)
	m.Power, m.PowerReason = mapState(state, reason)
	return m, view, answers, nil
}

// machineOf is the machine without its power and addresses.
func machineOf(dom libvirt.Domain, view domainView, persistent bool) instance.Machine {
	return instance.Machine{
		Name:       dom.Name,
		UUID:       uuid.UUID(dom.UUID).String(),
		Mark:       view.Mark,
		Persistent: persistent,
		Overlay:    view.Overlay,
	}
}

// addressAnswers are what the three sources said of one domain.
type addressAnswers struct {
	agent, lease, arp []libvirt.DomainInterface
}

// ofCards keeps the addresses of the cards with these MACs, best source first.
func (a addressAnswers) ofCards(macs []string) []instance.Address {
	return mergeAddresses(
		interfaceAddresses(a.agent, instance.SourceAgent, macs),
		interfaceAddresses(a.lease, instance.SourceLease, macs),
		interfaceAddresses(a.arp, instance.SourceARP, macs),
	)
}

// askAddresses asks all sources within g. An error is no answer: an agent that
// is not up yet is no fault, and some kernels make libvirt fail on ARP always.
func (h *Host) askAddresses(ctx context.Context, g *errgroup.Group, dom libvirt.Domain, into *addressAnswers) {
	for source, answer := range map[libvirt.DomainInterfaceAddressesSource]*[]libvirt.DomainInterface{
		libvirt.DomainInterfaceAddressesSrcAgent: &into.agent,
		libvirt.DomainInterfaceAddressesSrcLease: &into.lease,
		libvirt.DomainInterfaceAddressesSrcArp:   &into.arp,
	} {
		g.Go(func() error {
			ifaces, err := h.be.DomainInterfaceAddresses(ctx, dom, source)
			if err == nil {
				*answer = ifaces
			}
			return nil
		})
	}
}
