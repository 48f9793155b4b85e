package instance

import (
	"context"
	"slices"
)

// heldHere fails with Misconfigured for a machine that the host runs but whose
// disks are elsewhere than in the host's configured pool: the pool was
// exchanged in the configuration, or one libvirt is configured under two names.
// To remove such a machine would leave its disks behind, or end one that
// belongs to the other name.
func (s *Service) heldHere(ctx context.Context, h Host, m Machine) error {
	in, err := h.RootDiskInPool(ctx, m)
	if in || err != nil {
		return err
	}
	// A directory may have two names; what is found by ours is here.
	volumes, err := s.volumesOf(ctx, h, namesOf(s.owner, m.Name, m.UUID).prefix)
	if len(volumes) > 0 || err != nil {
		return err
	}
	return elsewhere(m)
}

// elsewhere is the answer for a machine whose root disk is in another pool.
func elsewhere(m Machine) *Error {
	return Errorf(ReasonMisconfigured, "its root disk %q is not in the configured pool; the domain is not touched", m.RootDisk)
}

// dropTwins leaves a machine that several hosts list, which are then one
// libvirt under several names, to the one whose pool is its root disk's, else to
// any: the other ID would look like an instance that nobody wants.
func dropTwins(ctx context.Context, hosts []Host, parts []listPart) error {
	keeper := map[string]int{}
	lost := make([]map[string]bool, len(parts))
	for i := range parts {
		lost[i] = map[string]bool{}
		for _, m := range parts[i].machines {
			other, twin := keeper[m.UUID]
			if !twin {
				keeper[m.UUID] = i
				continue
			}
			in, err := hosts[other].RootDiskInPool(ctx, m)
			if err != nil {
				return err
			}
			loser := i
			if !in {
				keeper[m.UUID], loser = i, other
			}
			lost[loser][m.UUID] = true
		}
	}
	for i := range parts {
		if len(lost[i]) == 0 {
			continue
		}
		parts[i].machines = slices.DeleteFunc(parts[i].machines, func(m Machine) bool { return lost[i][m.UUID] })
		TrailFrom(ctx).Warn("host " + hosts[i].Name() + " is a libvirt that another host is too: what both have is listed once")
	}
	return nil
}
