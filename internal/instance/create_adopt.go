package instance

import (
	"context"
	"slices"
	"strings"
	"time"
)

const (
	// stateTries and statePause bound the wait for a host that does not say
	// whether a machine runs.
	stateTries = 10
	statePause = 200 * time.Millisecond
)

// adopt decides on a machine that has the name already (C2, C3, C5, I4). The
// caller holds the name's lock.
func (r *createRun) adopt(ctx context.Context, m Machine) (Created, error) {
	switch {
	case !r.ours(m):
		return Created{}, taken("create instance", r.req.id)
	case m.Mark.Deleting:
		// Doomed already, whoever's it was.
		return Created{}, r.eraseAndAgain(ctx, m, "an unfinished delete was finished first")
	case m.Mark.UID != "" && m.Mark.UID != r.req.spec.UID:
		return Created{}, mismatch("create instance", r.req.id)
	case !m.Persistent:
		return Created{}, r.eraseAndAgain(ctx, m, "a domain that was undefined while it ran was removed first")
	case m.Power == PowerPaused:
		return Created{}, paused(m)
	}
	if err := r.work.commit(ctx); err != nil {
		return Created{}, err
	}
	if m.Power == PowerOff {
		if err := r.wake(ctx, m); err != nil {
			return Created{}, err
		}
	}
	if m.Mark.UID == "" && r.req.spec.UID != "" {
		r.step("adopt the domain")
		mark := *m.Mark
		mark.UID = r.req.spec.UID
		if err := r.req.host.SetMark(ctx, m, mark); err != nil {
			return Created{}, err
		}
	}
	return r.readBack(ctx, m, r.req.host.FindWithAddresses)
}

// wake starts a machine that is defined and off, unless its disk is gone.
func (r *createRun) wake(ctx context.Context, m Machine) error {
	r.step("look for the domain's disk")
	volumes, err := r.req.host.Volumes(ctx, namePrefix(r.owner, m.Name))
	if err != nil {
		return err
	}
	there, err := r.overlayThere(m, volumes)
	if err != nil {
		return err
	}
	if !there {
		return r.eraseAndAgain(ctx, m, "a stopped domain without its disk was removed first")
	}
	release, err := r.slots.acquire(ctx, r.req.id.Host)
	if err != nil {
		return err
	}
	defer release()
	r.step("start the domain")
	return r.req.host.Start(ctx, m, false)
}

// finder is Host.Find or Host.FindWithAddresses.
type finder func(ctx context.Context, name string) (Machine, error)

// readBack answers with the machine as its host describes it, once it runs, is
// persistent and has its disk (C3), and removes the volumes of other
// incarnations, of which none can win any more.
func (r *createRun) readBack(ctx context.Context, want Machine, find finder) (Created, error) {
	r.step("read the domain back")
	var m Machine
	var volumes []Volume
	for range stateTries {
		err := sideBySide(ctx,
			func(ctx context.Context) (err error) {
				m, err = find(ctx, r.req.id.Name)
				return err
			},
			func(ctx context.Context) (err error) {
				volumes, err = r.req.host.Volumes(ctx, namePrefix(r.owner, want.Name))
				return err
			})
		if err != nil {
			return Created{}, err
		}
		if m.Power != PowerUnknown {
			break
		}
		if err := pause(ctx, statePause); err != nil {
			return Created{}, err
		}
	}
	if err := r.judge(ctx, want, m, volumes); err != nil {
		return Created{}, err
	}
	r.removeOthers(ctx, m, volumes)
	return Created{Instance: r.instance(r.req.id.Host, m), Made: m.UUID == r.defined}, nil
}

// judge returns nil for a machine that a Create may answer with.
func (r *createRun) judge(ctx context.Context, want, m Machine, volumes []Volume) error {
	switch {
	case m.UUID != want.UUID, !r.ours(m):
		return again("another domain took the name")
	case m.Mark.Deleting, !m.Persistent:
		return r.yield(ctx, m)
	}
	there, err := r.overlayThere(m, volumes)
	switch {
	case err != nil:
		return err
	case !there:
		return r.eraseAndAgain(ctx, m, "the domain's disk is gone")
	}
	switch m.Power {
	case PowerOn:
		return nil
	case PowerPaused:
		return paused(m)
	case PowerUnknown:
		return Errorf(ReasonStartFailed, "%s", whyNoState)
	case PowerOff:
	}
	return Errorf(ReasonStartFailed, "the domain stopped right after its start: %s", stateReason(m, Stopped))
}

// yield gives way to a Delete that another daemon began. What was undefined
// while it ran would be left behind by that one, so it goes here.
func (r *createRun) yield(ctx context.Context, m Machine) error {
	if !m.Persistent {
		if err := r.erase(ctx, r.req.host, m); err != nil {
			return err
		}
	}
	return Errorf(ReasonCreateCancelled, "a delete of that name came meanwhile")
}

// overlayThere looks for m's disk among the volumes of its name. A disk that
// is elsewhere, the pool was changed, say, is nothing to repair from here.
func (r *createRun) overlayThere(m Machine, volumes []Volume) (bool, error) {
	name := m.Overlay
	if name == "" {
		name = namesOf(r.owner, m.Name, m.UUID).overlay
	}
	there := slices.ContainsFunc(volumes, func(v Volume) bool { return v.Name == name })
	if !there && m.Overlay == "" {
		return false, Errorf(ReasonMisconfigured, "the domain's root disk is not in the configured pool")
	}
	return there, nil
}

// removeOthers removes the volumes of the name that are not m's. A failure
// costs room, not the answer: the next Create or Delete of the name tries again.
func (r *createRun) removeOthers(ctx context.Context, m Machine, volumes []Volume) {
	all, own := namePrefix(r.owner, m.Name), namesOf(r.owner, m.Name, m.UUID).prefix
	var others []string
	for _, v := range volumes {
		if strings.HasPrefix(v.Name, all) && !strings.HasPrefix(v.Name, own) && v.Name != m.Overlay {
			others = append(others, v.Name)
		}
	}
	if err := r.deleteVolumes(ctx, r.req.host, others); err != nil {
		r.work.trail.Warn("volumes of an earlier attempt are left: " + err.Error())
	}
}

// eraseAndAgain removes what cannot be continued; the create starts over.
func (r *createRun) eraseAndAgain(ctx context.Context, m Machine, why string) error {
	r.step("remove what an earlier delete or create left")
	if err := r.erase(ctx, r.req.host, m); err != nil {
		return err
	}
	return again(why)
}

// paused is the answer for a machine that nobody resumes.
func paused(m Machine) *Error {
	return Errorf(ReasonDomainPaused, "the domain is not resumed: %s", stateReason(m, Stopped))
}

func taken(op string, id ID) *Error {
	return &Error{
		Reason: ReasonNameTaken, Op: op, Instance: id.Name, Host: id.Host,
		Detail: "a domain of that name exists that is not ours; it is not touched",
	}
}

func mismatch(op string, id ID) *Error {
	return &Error{
		Reason: ReasonUIDMismatch, Op: op, Instance: id.Name, Host: id.Host,
		Detail: "an instance of that name exists with another uid; it is not touched",
	}
}

// pause waits for d or for ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
