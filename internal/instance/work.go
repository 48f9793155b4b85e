package instance

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// creation is one create's work. It runs detached from the callers who wait
// for it: they join, and leave each on their own.
type creation struct {
	id     ID
	uid    string
	trail  *Trail
	span   trace.SpanContext
	cancel context.CancelCauseFunc
	// done is closed once result and err are final.
	done   chan struct{}
	result Created
	err    error

	mu        sync.Mutex
	committed bool
	revoked   bool
	waiters   int
}

// role is what a caller has to do with the work it waits for.
type role int

const (
	// started: the work is this caller's own.
	started role = iota
	// joined: another caller's work will do for this one too.
	joined
	// queued: the work is of another uid, or a Delete has cancelled it: this
	// caller waits for its end and asks again.
	queued
)

// joinOrStart returns the work under way for the request's name, or new work.
func (s *Service) joinOrStart(ctx context.Context, req request) (*creation, role, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, started, shuttingDown("create instance", req.id)
	}
	if c, ok := s.creates[req.id]; ok {
		return c, c.arrive(req.spec.UID), nil
	}
	if s.perHost[req.id.Host] >= queueFactor*s.slots.perHost {
		return nil, started, &Error{
			Reason: ReasonHostBusy, Op: "create instance", Instance: req.id.Name, Host: req.id.Host,
			Detail: "too many creates are under way on this host", RetryAfter: busyRetryAfter,
		}
	}
	return s.start(ctx, req), started, nil
}

// start runs the work of req. The caller holds s.mu. The work keeps ctx's
// values, its span among them, but neither its end nor its Trail.
func (s *Service) start(ctx context.Context, req request) *creation {
	work, trail := WithTrail(context.WithoutCancel(ctx))
	work, stop := context.WithTimeoutCause(work, s.createWait, &Error{
		Reason: ReasonTimeout, Op: "create instance", Instance: req.id.Name, Host: req.id.Host,
		Detail: "not done within " + s.createWait.String() + "; a repeat takes up what was begun",
	})
	work, cancel := context.WithCancelCause(work)
	c := &creation{
		id: req.id, uid: req.spec.UID, trail: trail, cancel: cancel,
		span: trace.SpanContextFromContext(ctx), done: make(chan struct{}), waiters: 1,
	}
	s.creates[c.id] = c
	s.perHost[c.id.Host]++
	s.work.Go(func() {
		defer stop()
		defer cancel(nil)
		s.runCreation(work, c, req)
	})
	return c
}

func (s *Service) runCreation(ctx context.Context, c *creation, req request) {
	began := time.Now()
	err := guarded(ctx, func(ctx context.Context) (err error) {
		c.result, err = (&createRun{Service: s, work: c, req: req}).run(ctx)
		return err
	})
	if err != nil && ctx.Err() != nil {
		// The host only knows that its caller left; the cause knows why.
		if r := ReasonOf(err); r == ReasonCancelled || r == ReasonTimeout {
			err = context.Cause(ctx)
		}
	}
	c.err = vanished(situate(err, "create instance", c.id))
	s.logCreation(ctx, c, time.Since(began))

	s.mu.Lock()
	delete(s.creates, c.id)
	if s.perHost[c.id.Host]--; s.perHost[c.id.Host] == 0 {
		delete(s.perHost, c.id.Host)
	}
	s.mu.Unlock()
	close(c.done)
}

// logCreation notes the outcome in detail. Those who wait for the work tell it
// on their own line; without any, nobody else would.
func (s *Service) logCreation(ctx context.Context, c *creation, took time.Duration) {
	level := slog.LevelDebug
	if c.waiting() == 0 {
		level = slog.LevelInfo
	}
	step, warnings := c.trail.Read()
	attrs := []any{
		slog.String("host", c.id.Host), slog.String("instance", c.id.Name),
		slog.String("step", step), slog.Int64("duration_ms", took.Milliseconds()), slog.Any("warnings", warnings),
	}
	if c.err == nil {
		s.log.Log(ctx, level, "create ended", append(attrs, slog.Bool("made", c.result.Made))...)
		return
	}
	attrs = append(attrs, slog.String("reason", string(ReasonOf(c.err))), slog.Any("error", c.err))
	if stack, ok := PanicStack(c.err); ok {
		level = slog.LevelError
		attrs = append(attrs, slog.String("stack", stack))
	}
	s.log.Log(ctx, level, "create ended with an error", attrs...)
}

// vanished turns NotFound into Transient: what a create needs and does not find
// was there a moment ago.
func vanished(err error) error {
	var e *Error
	if !errors.As(err, &e) || (e.Reason.Kind() != NotFound && !errors.Is(err, ErrNoVolume)) {
		return err
	}
	gone := *e
	gone.Reason = ReasonVanished
	return &gone
}

// commit says that from now on something of this create is or may be defined,
// so that a Delete waits for its end instead of cancelling it. It fails with
// the cause when the work was cancelled before.
func (c *creation) commit(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.committed = true
	return nil
}

// reopen takes a commit back once nothing is defined any more.
func (c *creation) reopen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.committed = false
}

// revoke cancels the work for a Delete unless something is defined.
func (c *creation) revoke() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.committed {
		c.revoked = true
		c.cancel(&Error{
			Reason: ReasonCreateCancelled, Op: "create instance", Instance: c.id.Name, Host: c.id.Host,
			Detail: "a delete of that name came before anything was defined",
		})
	}
}

// arrive counts one more waiter and tells what the work is to one with that uid.
func (c *creation) arrive(uid string) role {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiters++
	if uid != c.uid || c.revoked {
		return queued
	}
	return joined
}

func (c *creation) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiters--
}

func (c *creation) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiters
}
