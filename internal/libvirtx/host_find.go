package libvirtx

import (
	"context"
	"path"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// stoppedID is the ID that libvirt gives to a domain that does not run.
// unknownID stands in for that of a domain which may run: libvirt goes by the UUID.
const (
	stoppedID = -1
	unknownID = 0
)

const opRead = "read domain"

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
	dom, err := h.be.DomainLookupByName(ctx, name)
	if err != nil {
		return instance.Machine{}, h.fail(opRead, name, err)
	}
	m, err := h.readDomain(ctx, dom, addresses && dom.ID != stoppedID)
	if err != nil {
		return instance.Machine{}, h.fail(opRead, name, err)
	}
	return m, nil
}

// Read reads m again by its UUID, in one round trip: the name is not looked
// up. Gone: InstanceNotFound.
func (h *Host) Read(ctx context.Context, m instance.Machine) (instance.Machine, error) {
	dom, err := domainOf(m)
	if err != nil {
		return instance.Machine{}, h.fail(opRead, m.Name, err)
	}
	// Whether it runs is not known yet, so whether it is persistent must be asked.
	dom.ID = unknownID
	m, err = h.readDomain(ctx, dom, false)
	if err != nil {
		return instance.Machine{}, h.fail(opRead, dom.Name, err)
	}
	return m, nil
}

// readDomain reads all that Machine holds, side by side.
func (h *Host) readDomain(ctx context.Context, dom libvirt.Domain, addresses bool) (instance.Machine, error) {
	var (
		doc, stored   string
		state, reason int32
		persistent    = true
		answers       addressAnswers
	)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(safely(func() (err error) {
		doc, err = h.be.DomainGetXMLDesc(gctx, dom, 0)
		return err
	}))
	g.Go(safely(func() (err error) {
		state, reason, err = h.be.DomainGetState(gctx, dom)
		return err
	}))
	// A domain that does not run exists by its definition alone.
	if dom.ID != stoppedID {
		g.Go(safely(func() (err error) {
			persistent, err = h.be.DomainIsPersistent(gctx, dom)
			return err
		}))
		g.Go(safely(func() (err error) {
			stored, err = h.be.DomainGetXMLDesc(gctx, dom, libvirt.DomainXMLInactive)
			return err
		}))
	}
	if addresses {
		actx, cancel := context.WithTimeout(gctx, addressWait)
		defer cancel()
		h.askAddresses(actx, g, dom, &answers)
	}
	if err := g.Wait(); err != nil {
		return instance.Machine{}, err
	}
	view, err := parseDomain(doc)
	if err != nil {
		h.log.Log(ctx, instance.LevelDetail, "domain cannot be read, taken for somebody else's",
			"domain", dom.Name, "error", err)
	}
	if view.Mark != nil && storedDeleting(stored) {
		view.Mark.Deleting = true
	}
	m := machineOf(dom, view, persistent)
	m.Power, m.PowerReason = mapState(state, reason)
	if m.Power == instance.PowerOn {
		m.Addresses = answers.ofCards(view.MACs)
	}
	return m, nil
}

// safely has a step that panics fail instead.
func safely(step func() error) func() error {
	return func() error { return instance.Guard(step) }
}

// storedDeleting reports whether a running domain's stored definition is marked
// as being deleted, as a delete that met it off leaves it when a start came in
// between: the running one is a copy from before.
func storedDeleting(doc string) bool {
	if doc == "" {
		return false
	}
	// What cannot be read says nothing; the running one's mark holds then.
	view, _ := parseDomain(doc)
	return view.Mark != nil && view.Mark.Deleting
}

// machineOf is the machine without its power and addresses.
func machineOf(dom libvirt.Domain, view domainView, persistent bool) instance.Machine {
	m := instance.Machine{
		Name:       dom.Name,
		UUID:       uuid.UUID(dom.UUID).String(),
		Mark:       view.Mark,
		Persistent: persistent,
		RootDisk:   view.RootDisk,
	}
	if view.RootDisk != "" {
		m.Overlay = path.Base(view.RootDisk)
	}
	return m
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
		g.Go(safely(func() error {
			ifaces, err := h.be.DomainInterfaceAddresses(ctx, dom, source)
			if err == nil {
				*answer = ifaces
			}
			return nil
		}))
	}
}
