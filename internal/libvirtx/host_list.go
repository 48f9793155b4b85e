package libvirtx

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	libvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/sync/errgroup"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// listReads bounds the reads that a list has under way on one host. They are
// pipelined on one connection, so that all of them together cost about one
// round trip.
const listReads = 256

// listed is one domain on its way into a Listing.
type listed struct {
	record  libvirt.DomainStatsRecord
	view    domainView
	machine instance.Machine
	// broken: its XML or mark cannot be parsed.
	broken bool
	// transient: it was undefined while it ran.
	transient bool
	// gone: it vanished while it was read.
	gone atomic.Bool
}

// List reads all machines with our owner's mark, by name, in at most four
// round trips however many there are: states, XML, networks, addresses. A
// domain that vanishes or cannot be parsed is counted; any other failed read
// fails the list.
func (h *Host) List(ctx context.Context) (instance.Listing, error) {
	const op = "list domains"
	records, err := h.be.ConnectGetAllDomainStats(ctx)
	if err != nil {
		return instance.Listing{}, h.fail(op, "", err)
	}
	// Every name of ours is a DNS label: nothing else needs reading.
	records = slices.DeleteFunc(records, func(r libvirt.DomainStatsRecord) bool {
		return !instance.ValidLabel(r.Dom.Name)
	})
	domains, err := h.readListed(ctx, records)
	if err != nil {
		return instance.Listing{}, h.fail(op, "", err)
	}
	var out instance.Listing
	ours := make([]*listed, 0, len(domains))
	for _, d := range domains {
		switch {
		case d.gone.Load() || d.broken:
			out.Skipped++
		case d.view.Mark != nil && d.view.Mark.Owner == h.opts.Owner:
			d.machine = machineOf(d.record.Dom, d.view, !d.transient)
			d.machine.Power, d.machine.PowerReason = mapState(stateOf(d.record))
			ours = append(ours, d)
		}
	}
	h.listAddresses(ctx, ours)
	if err := ctx.Err(); err != nil {
		return instance.Listing{}, h.fail(op, "", err)
	}
	out.Machines = make([]instance.Machine, 0, len(ours))
	for _, d := range ours {
		out.Machines = append(out.Machines, d.machine)
	}
	slices.SortFunc(out.Machines, func(a, b instance.Machine) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// readListed reads the domains side by side; the first error that is not a
// vanished domain ends it.
func (h *Host) readListed(ctx context.Context, records []libvirt.DomainStatsRecord) ([]*listed, error) {
	out := make([]*listed, 0, len(records))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(listReads)
	for _, r := range records {
		d := &listed{record: r}
		out = append(out, d)
		g.Go(safely(func() error { return d.unlessGone(h.readView(gctx, d)) }))
		// A domain that does not run exists by its definition alone.
		if r.Dom.ID != stoppedID {
			g.Go(safely(func() error {
				persistent, err := h.be.DomainIsPersistent(gctx, d.record.Dom)
				d.transient = err == nil && !persistent
				return d.unlessGone(err)
			}))
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	h.views.keepOnly(records)
	return out, nil
}

// unlessGone notes a vanished domain and passes any other error on.
func (d *listed) unlessGone(err error) error {
	if answered(err, libvirt.ErrNoDomain) {
		d.gone.Store(true)
		return nil
	}
	return err
}

// readView reads the domain's XML and parses it, unless it is still the same
// as the last time.
func (h *Host) readView(ctx context.Context, d *listed) error {
	doc, err := h.be.DomainGetXMLDesc(ctx, d.record.Dom, 0)
	if err != nil {
		return err
	}
	view, err := h.views.parse(d.record.Dom.UUID, doc)
	if err != nil {
		d.broken = true
		h.log.Log(ctx, instance.LevelDetail, "domain cannot be read, left out of the list",
			"domain", d.record.Dom.Name, "error", err)
		return nil
	}
	d.view = view
	return nil
}

// stateOf picks state and reason out of a record; without them the domain has no state.
func stateOf(r libvirt.DomainStatsRecord) (state, reason int32) {
	for _, p := range r.Params {
		n, ok := p.Value.I.(int32)
		if !ok {
			continue
		}
		switch p.Field {
		case "state.state":
			state = n
		case "state.reason":
			reason = n
		}
	}
	return state, reason
}
