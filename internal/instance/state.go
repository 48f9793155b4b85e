package instance

import (
	"cmp"
	"net/netip"
	"slices"
)

// Words for Instance.StateReason that do not come from the host.
const (
	whyDeleting  = "being deleted"
	whyNoAddress = "no answer yet from agent, lease or ARP"
	whyNoState   = "the host does not say yet whether it runs"
	whyOff       = "shut off"
	whyPaused    = "paused"
)

// instance tells what m is to a caller.
func (s *Service) instance(host string, m Machine) Instance {
	i := Instance{
		ID:        ID{Host: host, Name: m.Name},
		UID:       m.Mark.UID,
		Placement: m.Mark.Placement,
		Image:     m.Mark.Image,
		Size:      m.Mark.Size,
		CreatedAt: m.Mark.CreatedAt,
		Tags:      m.Mark.Tags,
	}
	if m.Power == PowerOn {
		i.Addresses = reachable(m.Addresses)
		i.IP = firstIPv4(i.Addresses)
	}
	i.State = stateOf(m.Power, i.IP.IsValid())
	i.StateReason = stateReason(m, i.State)
	return i
}

// stateOf maps what the host says to a caller's view. PowerOff stands for every
// other answer a host may give.
func stateOf(p Power, hasIP bool) State {
	switch p {
	case PowerUnknown:
		return Provisioning
	case PowerOn:
		if hasIP {
			return Running
		}
		return Provisioning
	case PowerOff, PowerPaused:
	}
	return Stopped
}

// stateReason says in words why the state is what it is, "" when there is
// nothing to explain.
func stateReason(m Machine, state State) string {
	if m.Mark.Deleting {
		return whyDeleting
	}
	switch m.Power {
	case PowerUnknown:
		return whyNoState
	case PowerOn:
		if state == Running {
			return ""
		}
		return whyNoAddress
	case PowerPaused:
		return cmp.Or(m.PowerReason, whyPaused)
	case PowerOff:
	}
	return cmp.Or(m.PowerReason, whyOff)
}

// sourceRank orders sources by trust: the guest itself, who leased it, who saw it.
func sourceRank(s AddressSource) int {
	switch s {
	case SourceAgent:
		return 0
	case SourceLease:
		return 1
	case SourceARP:
		return 2
	}
	return 3
}

// reachable returns the addresses that something else than the machine itself
// or its link could use, best source first.
func reachable(all []Address) []Address {
	var good []Address
	for _, a := range all {
		a.Addr = a.Addr.Unmap()
		if a.Addr.IsGlobalUnicast() {
			good = append(good, a)
		}
	}
	slices.SortStableFunc(good, func(a, b Address) int {
		return cmp.Compare(sourceRank(a.Source), sourceRank(b.Source))
	})
	return good
}

// firstIPv4 returns the first IPv4 of addresses, the zero Addr without one.
func firstIPv4(addresses []Address) netip.Addr {
	for _, a := range addresses {
		if a.Addr.Is4() {
			return a.Addr
		}
	}
	return netip.Addr{}
}
