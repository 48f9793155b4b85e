package instance

import (
	"bytes"
	"context"
	"errors"
	"path"
	"slices"
	"time"
)

// discardLimit bounds the clean-up of a failed attempt, which may outlive
// whoever cancelled the work.
const discardLimit = 30 * time.Second

// incarnation is one attempt at a machine: its UUID and its volumes.
type incarnation struct {
	uuid    string
	names   volumeNames
	overlay Volume
	seed    Volume
}

// makeVolumes makes overlay and seed side by side. The base is confirmed after
// the overlay refers to it: from then on a removal of the image sees it in use.
func (r *createRun) makeVolumes(ctx context.Context, p *prepared, v *incarnation) error {
	r.step("make the volumes")
	seed, err := r.images.Seed(ctx, r.req.image, Seed{
		InstanceID: v.uuid, Hostname: r.req.id.Name, UserData: r.req.spec.UserData,
	})
	if err != nil {
		return err
	}
	return sideBySide(ctx,
		func(ctx context.Context) (err error) {
			v.overlay, err = r.makeVolume(ctx, NewVolume{
				Name: v.names.overlay, Format: "qcow2", CapacityBytes: p.diskBytes,
				BackingPath: p.base.Path, BackingFormat: p.base.Format,
			})
			if err != nil {
				return err
			}
			return r.images.Confirm(ctx, r.req.id.Host, p.base)
		},
		func(ctx context.Context) (err error) {
			v.seed, err = r.makeSeed(ctx, v.names.seed, seed)
			return err
		})
}

// makeSeed makes the volume of a seed and fills it.
func (r *createRun) makeSeed(ctx context.Context, name string, content []byte) (Volume, error) {
	size := int64(len(content))
	v, err := r.makeVolume(ctx, NewVolume{Name: name, Format: "raw", CapacityBytes: size})
	if err != nil {
		return Volume{}, err
	}
	return v, r.req.host.Upload(ctx, name, bytes.NewReader(content), size)
}

// restoreSeed makes the seed of a machine that is off anew. The machine would
// not start without, and its root disk is too much to give up for it. What the
// request holds goes in; nobody knows any more what was there.
func (r *createRun) restoreSeed(ctx context.Context, m Machine) error {
	r.step("make the seed anew")
	content, err := r.images.Seed(ctx, r.req.image, Seed{
		InstanceID: m.UUID, Hostname: m.Name, UserData: r.req.spec.UserData,
	})
	if err != nil {
		return err
	}
	name := namesOf(r.owner, m.Name, m.UUID).seed
	_, err = r.makeSeed(ctx, name, content)
	switch {
	case errors.Is(err, ErrVolumeExists):
		// The host had not listed it.
		return nil
	case err != nil:
		r.discard(ctx, name)
		return err
	}
	r.work.trail.Warn("the seed was gone and was made anew")
	return nil
}

// makeVolume makes one volume. A call that was sent is waited for even when the
// work is cancelled, within the host's own limit: an answer that nobody heard
// would leave a volume behind that the clean-up did not see.
func (r *createRun) makeVolume(ctx context.Context, v NewVolume) (Volume, error) {
	if ctx.Err() != nil {
		return Volume{}, context.Cause(ctx)
	}
	return r.req.host.CreateVolume(context.WithoutCancel(ctx), v)
}

// discard removes the volumes of an attempt that was not defined. What it
// cannot remove, a repeat or a Delete will.
func (r *createRun) discard(ctx context.Context, volumes ...string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardLimit)
	defer cancel()
	if err := r.deleteVolumes(ctx, r.req.host, volumes); err != nil {
		r.tellPanic(ctx, err)
		r.work.trail.Warn("the volumes of a failed attempt are left for a repeat or a delete: " + err.Error())
	}
}

// define makes the machine known: the commit (I5). On failure the volumes are
// removed where it is certain that no machine uses them.
func (r *createRun) define(ctx context.Context, v *incarnation) (Machine, error) {
	if err := r.work.commit(ctx); err != nil {
		r.discard(ctx, v.names.overlay, v.names.seed)
		return Machine{}, err
	}
	r.step("define the domain")
	mark := Mark{
		Owner: r.owner, UID: r.req.spec.UID, CreatedAt: time.Now().UTC().Truncate(time.Second),
		Placement: r.req.spec.Placement, Image: r.req.spec.Image, Size: r.req.spec.Size, Tags: r.req.spec.Tags,
	}
	m := Machine{
		Name: r.req.id.Name, UUID: v.uuid, Mark: &mark, Persistent: true, Overlay: v.names.overlay,
	}
	definition := Definition{
		Name: m.Name, UUID: m.UUID, Mark: mark,
		VCPUs: r.req.size.VCPUs, MemoryMiB: r.req.size.MemoryMiB, Firmware: r.req.image.Firmware,
		OverlayPath: v.overlay.Path, SeedPath: v.seed.Path,
		ConsolePath: path.Join(path.Dir(v.overlay.Path), v.names.console),
		Autostart:   r.req.spec.Autostart,
	}
	err := r.req.host.Define(context.WithoutCancel(ctx), definition)
	if err != nil && !errors.Is(err, ErrAlreadyDefined) && r.lost(ctx, v, err) {
		// It was heard, if perhaps not to the end: say it once more.
		err = r.req.host.Define(context.WithoutCancel(ctx), definition)
	}
	switch {
	case err == nil:
		r.defined = m.UUID
		return m, nil
	case errors.Is(err, ErrAlreadyDefined):
		r.discard(ctx, v.names.overlay, v.names.seed)
		return Machine{}, again("another machine of that name was defined first")
	}
	return Machine{}, err
}

// lost finds out what a failed define left. It returns true when the machine is
// there, so that only the answer was lost, and the work may go on.
func (r *createRun) lost(ctx context.Context, v *incarnation, defineErr error) bool {
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardLimit)
	defer cancel()
	m, err := r.req.host.Find(look, r.req.id.Name)
	switch {
	case err == nil && m.UUID == v.uuid:
		r.defined = m.UUID
		return ctx.Err() == nil
	case err == nil, ReasonOf(err) == ReasonInstanceNotFound && !unanswered(defineErr):
		r.discard(ctx, v.names.overlay, v.names.seed)
	default:
		// The define may still be on its way: volumes without a machine are taken
		// up by a repeat or a Delete, a machine without volumes is worse.
		r.work.trail.Warn("what the define left is not known; a repeat or a delete takes it up")
	}
	return false
}

// unansweredReasons mean that no answer came; all others are one.
var unansweredReasons = []Reason{
	ReasonTimeout, ReasonCancelled, ReasonUnreachable, ReasonLibvirtUnavailable, ReasonInternal,
}

// unanswered reports whether the host may still act on a call that failed so.
func unanswered(err error) bool { return slices.Contains(unansweredReasons, ReasonOf(err)) }
