package instance

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// Delete removes the instance and everything that is its own, and returns once
// that is read back gone (D1 to D5). uid, when not empty, guards: an instance
// with another uid is left alone. What is absent already is success, and so is
// a host that is not configured, with a warning on the trail. A create of that
// name that has defined nothing yet is cancelled.
//
// Reasons: MalformedID, NameTaken, UIDMismatch, Misconfigured (its disks are in
// another pool), CreateInProgress (another daemon makes it again and again), and
// those of Host.
func (s *Service) Delete(ctx context.Context, id, uid string) error {
	const op = "delete instance"
	parsed, err := ParseID(id)
	if err != nil {
		return err
	}
	host, ok := s.hosts.Host(parsed.Host)
	if !ok {
		TrailFrom(ctx).Warn("host " + parsed.Host + " is not configured: nothing was deleted")
		s.unconfiguredDelete()
		return nil
	}
	if err := ctx.Err(); err != nil {
		return situate(err, op, parsed)
	}
	d := &deletion{Service: s, host: host, id: parsed, uid: uid, trail: TrailFrom(ctx)}
	return situate(d.run(ctx), op, parsed)
}

// deletion carries one Delete from the look-up to the read-back.
type deletion struct {
	*Service
	host  Host
	id    ID
	uid   string
	trail *Trail
	// touched is set once something of the name was removed.
	touched bool
}

func (d *deletion) run(ctx context.Context) error {
	d.revokeCreate()
	d.trail.Step("wait for other work on this name")
	unlock, err := d.names.lock(ctx, d.id)
	if err != nil {
		return err
	}
	defer unlock()
	for range maxRounds {
		done, err := d.round(ctx)
		if done || err != nil {
			return err
		}
	}
	return Errorf(ReasonCreateInProgress, "the instance is made again and again by somebody else")
}

// round removes what there is. It is done when a look-up finds nothing and
// nothing was removed since; otherwise another daemon may have raced.
func (d *deletion) round(ctx context.Context) (done bool, err error) {
	d.trail.Step("look up the name")
	m, err := d.host.Find(ctx, d.id.Name)
	if ReasonOf(err) == ReasonInstanceNotFound {
		return d.sweepAbsent(ctx)
	}
	if err != nil {
		return false, err
	}
	if refusal := d.refuse(m); refusal != nil {
		if d.touched {
			// What was asked for is gone; this one came after it.
			return true, nil
		}
		return false, refusal
	}
	d.trail.Step("remove the domain")
	d.touched = true
	if err := d.erase(ctx, d.host, m); err != nil {
		return false, err
	}
	_, err = d.sweepName(ctx)
	return false, err
}

// refuse returns why m must not be deleted, nil when it may.
func (d *deletion) refuse(m Machine) error {
	switch {
	case !d.ours(m):
		return taken("delete instance", d.id)
	case d.uid != "" && m.Mark.UID != d.uid:
		return mismatch("delete instance", d.id)
	}
	return nil
}

// sweepAbsent removes what is left of a name without a domain.
func (d *deletion) sweepAbsent(ctx context.Context) (done bool, err error) {
	if !d.touched {
		// Nobody has looked since the machine went.
		if err := d.rescan(ctx, d.host); err != nil {
			return false, err
		}
	}
	removed, err := d.sweepName(ctx)
	d.touched = d.touched || removed
	return !removed, err
}

// sweepName removes every volume of the name and tells whether there was any.
func (d *deletion) sweepName(ctx context.Context) (removed bool, err error) {
	d.trail.Step("remove what is left")
	volumes, err := d.volumesOf(ctx, d.host, namePrefix(d.owner, d.id.Name))
	if err != nil {
		return false, err
	}
	return len(volumes) > 0, d.sweep(ctx, d.host, d.id.Name, volumes)
}

// revokeCreate cancels a create of the name that has defined nothing, unless it
// has another uid than the guard's.
func (d *deletion) revokeCreate() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.creates[d.id]; c != nil && (d.uid == "" || c.uid == d.uid) {
		c.revoke()
	}
}

// erase removes one machine of ours (D2): it is marked so that nobody starts
// it, stopped, its volumes deleted, and undefined last, so that whoever dies in
// between leaves something to find. Every step takes what is gone for done.
func (s *Service) erase(ctx context.Context, h Host, m Machine) error {
	if err := s.heldHere(ctx, h, m); err != nil {
		return err
	}
	if m.Persistent && !m.Mark.Deleting {
		mark := *m.Mark
		mark.Deleting = true
		if err := h.SetMark(ctx, m, mark); err != nil && ReasonOf(err) != ReasonInstanceNotFound {
			return err
		}
	}
	if err := h.Stop(ctx, m); err != nil {
		return err
	}
	// What the host writes by itself, the console's log and older ones, is not
	// listed before it looks.
	if err := s.rescan(ctx, h); err != nil {
		return err
	}
	volumes, err := s.volumesOf(ctx, h, namesOf(s.owner, m.Name, m.UUID).prefix)
	if err != nil {
		return err
	}
	if err := s.deleteVolumes(ctx, h, namesIn(volumes)); err != nil {
		return err
	}
	if !m.Persistent {
		// Stopped, it is gone: there is nothing to undefine.
		return nil
	}
	return h.Undefine(ctx, m)
}

// rescan has the host look at its pool; one that is not there holds nothing.
func (s *Service) rescan(ctx context.Context, h Host) error {
	if err := h.Rescan(ctx); ReasonOf(err) != ReasonPoolNotFound {
		return err
	}
	return nil
}

// volumesOf lists volumes; a pool that is not there holds none.
func (s *Service) volumesOf(ctx context.Context, h Host, prefix string) ([]Volume, error) {
	volumes, err := h.Volumes(ctx, prefix)
	if err != nil {
		if ReasonOf(err) == ReasonPoolNotFound {
			return nil, nil
		}
		return nil, err
	}
	// The prefix is what makes a volume ours to delete: it is not left to the host.
	return slices.DeleteFunc(volumes, func(v Volume) bool { return !strings.HasPrefix(v.Name, prefix) }), nil
}

// namesIn returns the names of volumes.
func namesIn(volumes []Volume) []string {
	names := make([]string, 0, len(volumes))
	for _, v := range volumes {
		names = append(names, v.Name)
	}
	return names
}

// deleteVolumes removes volumes side by side; all are tried.
func (s *Service) deleteVolumes(ctx context.Context, h Host, names []string) error {
	errs := make([]error, len(names))
	steps := make([]func(context.Context) error, 0, len(names))
	for i, name := range names {
		steps = append(steps, func(ctx context.Context) error {
			err := h.DeleteVolume(ctx, name)
			if ReasonOf(err) != ReasonPoolNotFound && !errors.Is(err, ErrNoVolume) {
				errs[i] = err
			}
			return nil
		})
	}
	if err := sideBySide(ctx, steps...); err != nil {
		return err
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
