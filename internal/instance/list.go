package instance

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// List returns our instances of all hosts, or of one, that pass the filter (L1
// to L4). Hosts are read side by side. One host that cannot be read fails the
// list, unless the filter asks for a partial one.
//
// Reasons: InvalidRequest, HostNotConfigured, and those of Host.
func (s *Service) List(ctx context.Context, f Filter) (Page, error) {
	const op = "list instances"
	switch f.State {
	case "", Provisioning, Running, Stopped:
	default:
		return Page{}, invalid(op, []Fault{{Pointer: "/state", Detail: "want Provisioning, Running or Stopped"}})
	}
	hosts, err := s.hostsNamed(op, f.Host)
	if err != nil {
		return Page{}, err
	}
	TrailFrom(ctx).Step("read the hosts")
	parts := make([]listPart, len(hosts))
	steps := make([]func(context.Context) error, 0, len(hosts))
	for i, h := range hosts {
		steps = append(steps, func(ctx context.Context) error {
			err := situate(s.listHost(ctx, h, &parts[i]), op, ID{Host: h.Name()})
			if f.Partial {
				s.tellPanic(ctx, err)
				parts[i].err = err
				return nil
			}
			return err
		})
	}
	if err := sideBySide(ctx, steps...); err != nil {
		return Page{}, situate(err, op, ID{})
	}
	if err := dropTwins(ctx, hosts, parts); err != nil {
		return Page{}, situate(err, op, ID{})
	}
	return s.joinParts(ctx, hosts, parts, f), nil
}

// listPart is what one host contributes.
type listPart struct {
	// machines are our owner's.
	machines []Machine
	skipped  int
	err      error
}

func (s *Service) listHost(ctx context.Context, h Host, part *listPart) error {
	listing, err := h.List(ctx)
	if err != nil {
		return err
	}
	part.skipped = listing.Skipped
	part.machines = make([]Machine, 0, len(listing.Machines))
	for _, m := range listing.Machines {
		if m.Mark == nil || m.Mark.Owner != s.owner {
			continue
		}
		if !ValidLabel(m.Name) {
			part.skipped++
			continue
		}
		part.machines = append(part.machines, m)
	}
	slices.SortFunc(part.machines, func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

func (f Filter) matches(i Instance) bool {
	if f.Placement != "" && f.Placement != i.Placement || f.State != "" && f.State != i.State {
		return false
	}
	for key, want := range f.Tags {
		if got, ok := i.Tags[key]; !ok || got != want {
			return false
		}
	}
	return true
}

// joinParts puts what passes the filter together in the order of the hosts.
func (s *Service) joinParts(ctx context.Context, hosts []Host, parts []listPart, f Filter) Page {
	total := 0
	for _, p := range parts {
		total += len(p.machines)
	}
	page := Page{Items: make([]Instance, 0, total), Unreachable: []UnreachableHost{}}
	for i, p := range parts {
		name := hosts[i].Name()
		if p.err != nil {
			page.Unreachable = append(page.Unreachable, UnreachableHost{Host: name, Reason: ReasonOf(p.err)})
			TrailFrom(ctx).Warn(fmt.Sprintf("left out host %s: %v", name, p.err))
		}
		if p.skipped > 0 {
			page.Skipped += p.skipped
			TrailFrom(ctx).Warn(fmt.Sprintf("skipped %d domains on host %s that vanished or cannot be read", p.skipped, name))
		}
		for _, m := range p.machines {
			if in := s.instance(name, m); f.matches(in) {
				page.Items = append(page.Items, in)
			}
		}
	}
	return page
}
