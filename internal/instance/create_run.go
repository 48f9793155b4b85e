package instance

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
)

const (
	// maxRounds bounds how often a create or delete starts over because the
	// host changed under it.
	maxRounds = 6
	// staleAfter is the age from which what was seen without the lock is looked
	// at again: an image took its time, or other work on the name.
	staleAfter = time.Second
	// seedAllowance is the room that a dry run counts for the seed, as Ensure does (C6).
	seedAllowance = 16 << 20
)

// errAgain says that the host changed under the work, which starts over.
var errAgain = errors.New("changed meanwhile")

// createRun carries one create from look-up to read-back.
type createRun struct {
	*Service
	work *creation
	req  request
	// defined is the UUID of the machine that this work defined last.
	defined string
}

// prepared is what a build needs and was learnt without the lock.
type prepared struct {
	base      Base
	diskBytes int64
	began     time.Time
}

func (r *createRun) run(ctx context.Context) (Created, error) {
	var last error
	for range maxRounds {
		r.work.reopen()
		created, err := r.round(ctx)
		if !errors.Is(err, errAgain) {
			return created, err
		}
		last = err
		r.log.Log(ctx, LevelDetail, "create starts over", slog.String("host", r.req.id.Host),
			slog.String("instance", r.req.id.Name), slog.Any("why", err))
	}
	return Created{}, Errorf(ReasonVanished, "the host kept changing under the create: %v", last)
}

// round is one attempt: what is there is taken over, else made.
func (r *createRun) round(ctx context.Context) (Created, error) {
	created, found, err := r.takeOver(ctx)
	if found || err != nil {
		return created, err
	}
	if r.req.host.InMaintenance() {
		return Created{}, inMaintenance()
	}
	p, err := r.prepare(ctx)
	if err != nil {
		return Created{}, err
	}

	r.step("wait for other work on this name and host")
	unlock, err := r.names.lock(ctx, r.req.id)
	if err != nil {
		return Created{}, err
	}
	defer unlock()
	release, err := r.slots.acquire(ctx, r.req.id.Host)
	if err != nil {
		return Created{}, err
	}
	defer release()
	if err := r.stillFree(ctx, p); err != nil {
		return Created{}, err
	}
	return r.build(ctx, p)
}

// takeOver looks the name up under its lock and decides on what is found.
func (r *createRun) takeOver(ctx context.Context) (created Created, found bool, err error) {
	r.step("wait for other work on this name")
	unlock, err := r.names.lock(ctx, r.req.id)
	if err != nil {
		return Created{}, false, err
	}
	defer unlock()
	r.step("look up the name")
	m, err := r.req.host.Find(ctx, r.req.id.Name)
	switch {
	case err == nil:
		created, err = r.adopt(ctx, m)
		return created, true, err
	case ReasonOf(err) == ReasonInstanceNotFound:
		return Created{}, false, nil
	}
	return Created{}, false, err
}

// prepare does what needs no lock: the host is checked and the image fetched,
// side by side. Ensure also asks for the room of the whole create (C6); asking
// again later would count it twice.
func (r *createRun) prepare(ctx context.Context) (*prepared, error) {
	r.step("check the host and wait for the image")
	p := &prepared{diskBytes: r.req.diskBytes(), began: time.Now()}
	err := sideBySide(ctx,
		func(ctx context.Context) error { return r.req.host.Preflight(ctx, r.req.image.Firmware) },
		func(ctx context.Context) error {
			return r.timed(StepImage, func() (err error) {
				p.base, err = r.images.Ensure(ctx, r.req.id.Host, r.req.image, p.diskBytes)
				return err
			})
		})
	if err != nil {
		return nil, err
	}
	if p.diskBytes == 0 {
		p.diskBytes = p.base.VirtualBytes
	}
	return p, nil
}

// stillFree looks the name up once more when the first look is no longer
// fresh. Without that, Define still decides.
func (r *createRun) stillFree(ctx context.Context, p *prepared) error {
	if time.Since(p.began) < staleAfter {
		return nil
	}
	r.step("look up the name again")
	_, err := r.req.host.Find(ctx, r.req.id.Name)
	switch {
	case err == nil:
		return again("the name was taken while the image was awaited")
	case ReasonOf(err) == ReasonInstanceNotFound:
		return nil
	}
	return err
}

// build makes the volumes, defines the machine and boots it. The caller holds
// the name's lock and one of the host's slots.
func (r *createRun) build(ctx context.Context, p *prepared) (Created, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return Created{}, &Error{Reason: ReasonInternal, Op: "make a UUID", Err: err}
	}
	vols := &incarnation{uuid: id.String(), names: namesOf(r.owner, r.req.id.Name, id.String())}
	if err := r.timed(StepVolumes, func() error { return r.makeVolumes(ctx, p, vols) }); err != nil {
		r.discard(ctx, vols.names.overlay, vols.names.seed)
		if errors.Is(err, ErrVolumeExists) || ReasonOf(err) == ReasonVanished {
			return Created{}, again("a volume changed under the create: " + err.Error())
		}
		return Created{}, err
	}
	var m Machine
	err = r.timed(StepDefine, func() (err error) {
		m, err = r.define(ctx, vols)
		return err
	})
	if err != nil {
		return Created{}, err
	}
	var created Created
	err = r.timed(StepStart, func() (err error) {
		created, err = r.boot(ctx, m)
		return err
	})
	return created, err
}

// boot starts a machine that was just defined, tidies up beside that, and reads it back.
func (r *createRun) boot(ctx context.Context, m Machine) (Created, error) {
	r.step("start the domain")
	err := sideBySide(ctx,
		func(ctx context.Context) error { return r.req.host.Start(ctx, m, true) },
		func(ctx context.Context) error { return r.tidy(ctx, m) })
	if err != nil {
		return Created{}, err
	}
	return r.readBack(ctx, m, func(ctx context.Context) (Machine, error) { return r.req.host.Read(ctx, m) })
}

func inMaintenance() *Error {
	return Errorf(ReasonHostInMaintenance, "the host is in maintenance and takes no new instances")
}

// step notes on the trail what is being done.
func (r *createRun) step(what string) { r.work.trail.Step(what) }

// again makes an error that starts the create over.
func again(why string) error {
	return &Error{Reason: ReasonVanished, Detail: why, Err: errAgain}
}
