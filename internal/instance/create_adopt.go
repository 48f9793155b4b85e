package instance

import (
	"cmp"
	"context"
	"errors"
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
		return Created{}, undefined()
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
	var created Created
	err := sideBySide(ctx,
		func(ctx context.Context) error { return r.tidy(ctx, m) },
		func(ctx context.Context) (err error) {
			created, err = r.readBack(ctx, m, func(ctx context.Context) (Machine, error) {
				return r.req.host.FindWithAddresses(ctx, m.Name)
			})
			return err
		})
	return created, err
}

// wake starts a machine that is defined and off, unless its root disk is gone,
// or its seed before anything was written to that disk: then it never ran, and
// is what a sweep left of an attempt. The create that defined it may have died
// before it said autostart.
func (r *createRun) wake(ctx context.Context, m Machine) error {
	r.step("look for the domain's disks")
	overlay, there, err := r.overlayOf(ctx, m)
	if err != nil {
		return err
	}
	if !there {
		return r.eraseAndAgain(ctx, m, "a stopped domain without its root disk was removed first")
	}
	names := namesOf(r.owner, m.Name, m.UUID)
	seed, seeded, err := r.volume(ctx, names.seed)
	if err != nil {
		return err
	}
	// What a sweep left in place of a seed is none.
	blocked := seeded && isPlaceholder(seed)
	seeded = seeded && !blocked
	// A snapshot's overlay, named otherwise, is short while the data is below it.
	if !seeded && overlay.Name == names.overlay && unwritten(overlay) {
		return r.eraseAndAgain(ctx, m, "a domain that lost its seed before it ran was removed first")
	}
	release, err := r.slots.acquire(ctx, r.req.id.Host)
	if err != nil {
		return err
	}
	defer release()
	if blocked {
		if err := r.req.host.DeleteVolume(ctx, names.seed); err != nil {
			return err
		}
	}
	if !seeded {
		if err := r.restoreSeed(ctx, m); err != nil {
			return err
		}
	}
	r.step("start the domain")
	if r.req.spec.Autostart {
		if err := r.req.host.SetAutostart(ctx, m, true); err != nil {
			return err
		}
	}
	return r.req.host.Start(ctx, m, false)
}

// readBack answers with the machine as its host describes it, once it runs, is
// persistent and has its disk (C3).
func (r *createRun) readBack(ctx context.Context, want Machine, read func(context.Context) (Machine, error)) (Created, error) {
	r.step("read the domain back")
	var m Machine
	var there bool
	for range stateTries {
		err := sideBySide(ctx,
			func(ctx context.Context) (err error) {
				m, err = read(ctx)
				return err
			},
			func(ctx context.Context) (err error) {
				_, there, err = r.overlayOf(ctx, want)
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
	if err := r.judge(ctx, want, m, there); err != nil {
		return Created{}, err
	}
	return Created{Instance: r.instance(r.req.id.Host, m), Made: m.UUID == r.defined}, nil
}

// judge returns nil for a machine that a Create may answer with.
func (r *createRun) judge(ctx context.Context, want, m Machine, overlayThere bool) error {
	switch {
	case m.UUID != want.UUID, !r.ours(m):
		return again("another domain took the name")
	case m.Mark.Deleting, !m.Persistent && m.UUID == r.defined:
		return r.yield(ctx, m)
	case !m.Persistent:
		return undefined()
	case !overlayThere && (m.Power == PowerOff || m.UUID == r.defined):
		return r.eraseAndAgain(ctx, m, "the root disk of the domain is gone")
	case !overlayThere:
		// It holds its data for as long as it runs: that is not ours to end.
		return Errorf(ReasonVanished, "the domain runs without a root disk in the pool; it is made anew once it is stopped or deleted")
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

// overlayOf looks for m's root disk in the pool. Before a machine that is not
// this work's own is given up for its absence, the host looks at its pool anew,
// for it knows no file that came there behind its back; and a disk that is
// elsewhere is not gone.
func (r *createRun) overlayOf(ctx context.Context, m Machine) (v Volume, there bool, err error) {
	name := cmp.Or(m.Overlay, namesOf(r.owner, m.Name, m.UUID).overlay)
	v, there, err = r.volume(ctx, name)
	if there || err != nil || m.UUID == r.defined {
		return v, there, err
	}
	if err := r.req.host.Rescan(ctx); err != nil {
		return Volume{}, false, err
	}
	v, there, err = r.volume(ctx, name)
	if there || err != nil {
		return v, there, err
	}
	in, err := r.req.host.RootDiskInPool(ctx, m)
	if err == nil && (!in || m.RootDisk == "") {
		// None is one that is no file any more: each of ours was defined with one.
		err = elsewhere(m)
	}
	return Volume{}, false, err
}

// volume reads a volume that may be absent.
func (r *createRun) volume(ctx context.Context, name string) (v Volume, there bool, err error) {
	v, err = r.req.host.Volume(ctx, name)
	if errors.Is(err, ErrNoVolume) {
		return Volume{}, false, nil
	}
	return v, err == nil, err
}

// unwrittenBytes is as long as an overlay of up to 4 TiB can be before its guest
// has written: header, tables and nothing else, in clusters of 64 KiB. The first
// write adds two more.
const unwrittenBytes = 4 * 64 << 10

// unwritten reports whether no guest has written to an overlay, as far as the
// host tells.
func unwritten(overlay Volume) bool {
	return overlay.PhysicalBytes > 0 && overlay.PhysicalBytes <= unwrittenBytes
}

// tidy removes the volumes of other incarnations of m's name, of which none can
// win any more. It never fails: what is left costs room, not the answer, and
// the next Create or Delete of the name tries again.
func (r *createRun) tidy(ctx context.Context, m Machine) error {
	all, own := namePrefix(r.owner, m.Name), namesOf(r.owner, m.Name, m.UUID).prefix
	volumes, err := r.volumesOf(ctx, r.req.host, all)
	if err == nil {
		volumes = slices.DeleteFunc(volumes, func(v Volume) bool {
			return strings.HasPrefix(v.Name, own) || v.Name == m.Overlay
		})
		err = r.sweep(ctx, r.req.host, m.Name, volumes)
	}
	r.tellPanic(ctx, err)
	if err != nil && ctx.Err() == nil {
		r.work.trail.Warn("volumes of earlier attempts may be left: " + err.Error())
	}
	return nil
}

// eraseAndAgain removes what cannot be continued; the create starts over, so it
// must be one that the host would take.
func (r *createRun) eraseAndAgain(ctx context.Context, m Machine, why string) error {
	if r.req.host.InMaintenance() {
		// What is removed could not be made anew.
		return inMaintenance()
	}
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

// undefined is the answer for a machine that runs without a definition, though
// no delete of ours undefined it: somebody's hand did, and left it running.
func undefined() *Error {
	return Errorf(ReasonVanished, "the domain was undefined and runs on; it is made anew once it is stopped or deleted")
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
