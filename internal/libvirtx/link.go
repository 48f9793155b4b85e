package libvirtx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// LinkOptions are what a Link is made of. Host and Connector are required.
type LinkOptions struct {
	// Host is the configured name.
	Host      string
	Connector Connector
	Limits    Limits
	// Buffers may be shared by all links; nil bounds nothing.
	Buffers *Buffers
	// Log gets one Debug line per call; nil discards.
	Log *slog.Logger
	// Tracer makes one span per call; nil makes none.
	Tracer trace.Tracer
	// Metrics may be shared by all links; nil counts for nobody.
	Metrics *Metrics
}

// Link is one host's way to its libvirt: a few warm sessions, dialed when a
// call first needs them and again after they were lost, and a session of its
// own for each large transfer and each health check. It is safe for concurrent
// use.
type Link struct {
	limits  Limits
	buffers *Buffers
	dialer  *dialer
	observe observer
	quiet   quietAgents
	warm    map[lane]*warm
	usage   usage

	// closing is closed by Close, and with it every session and dial ends.
	closing chan struct{}
	mu      sync.Mutex
	closed  bool
	work    sync.WaitGroup
}

// NewLink makes a link. It does no I/O: the first call dials.
func NewLink(o LinkOptions) (*Link, error) {
	var missing []error
	if o.Host == "" {
		missing = append(missing, errors.New("link: Host is missing"))
	}
	if o.Connector == nil {
		missing = append(missing, errors.New("link: Connector is missing"))
	}
	if missing != nil {
		return nil, errors.Join(missing...)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Tracer == nil {
		o.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	l := &Link{
		limits:  o.Limits.withDefaults(),
		buffers: o.Buffers,
		observe: observer{
			host:    o.Host,
			log:     o.Log.With(slog.String("host", o.Host)),
			tracer:  o.Tracer,
			metrics: o.Metrics,
		},
		closing: make(chan struct{}),
	}
	l.dialer = newDialer(o.Connector, l.limits.Dial, l.observe)
	l.warm = map[lane]*warm{
		laneFast:  {link: l, lane: laneFast},
		laneSlow:  {link: l, lane: laneSlow},
		laneAgent: {link: l, lane: laneAgent},
	}
	return l, nil
}

// Backend returns the seam, routed over the link's sessions and observed. Its
// calls fail with libvirt's errors or with those that Classify knows, return
// when ctx ends, and may be made until Close.
func (l *Link) Backend() Backend {
	return calls{observed{l.observe, l}}
}

// Fresh runs fn on a connection of its own, which is closed when fn returns.
// The dial is a new one: a failure that others met before is not asked. The
// Backend is not to be used after fn.
func (l *Link) Fresh(ctx context.Context, fn func(context.Context, Backend) error) error {
	l.usage.begin()
	defer l.usage.end()
	s, err := l.open(ctx, laneFresh)
	if err != nil {
		return err
	}
	defer s.end(errClosed)
	return fn(ctx, calls{observed{l.observe, s}})
}

// Close ends all sessions, calls in flight included, and waits for every
// goroutine of the link. Calls made later fail.
func (l *Link) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.closing)
	}
	l.mu.Unlock()
	l.work.Wait()
	return nil
}

// do chooses the session for a call.
func (l *Link) do(ctx context.Context, c call, fn rpc) error {
	l.usage.begin()
	defer l.usage.end()
	switch c.lane {
	case laneTransfer:
		giveBack, err := l.buffers.take(ctx, l.closing)
		if err != nil {
			return err
		}
		defer giveBack()
		s, err := l.open(ctx, laneTransfer)
		if err != nil {
			return err
		}
		defer s.end(errClosed)
		return s.do(ctx, c, fn)
	case laneAgent:
		return l.askAgent(ctx, c, fn)
	default:
		return l.warm[c.lane].do(ctx, c, fn)
	}
}

// askAgent makes a call that a guest's agent answers, or does not: its caller
// waits for Limits.Agent in all, its turn and a dial included, while the call
// itself keeps its slot until libvirt gives up on the agent.
func (l *Link) askAgent(ctx context.Context, c call, fn rpc) error {
	if err := l.quiet.remembered(c.domain); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.limits.Agent,
		&overdueError{what: c.name + " from the guest's agent", limit: l.limits.Agent})
	defer cancel()
	return l.warm[laneAgent].do(ctx, c, func(ctx context.Context, b Backend, in inflight) error {
		late := l.quiet.expect(c.domain, l.limits.Agent)
		err := fn(ctx, b, in)
		l.quiet.answered(c.domain, late, err)
		return err
	})
}

// open dials a session that its caller ends and the link waits for.
func (l *Link) open(ctx context.Context, kind lane) (*session, error) {
	if !l.begin() {
		return nil, errClosed
	}
	defer l.work.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.work.Go(func() {
		select {
		case <-l.closing:
			cancel(errClosed)
		case <-ctx.Done():
		}
	})
	conn, err := l.dialer.connect(ctx, kind)
	if err != nil {
		return nil, err
	}
	s := newSession(conn, kind, l.limits, l.observe.abandoned)
	if !l.adopt(s, kind) {
		s.close(errClosed)
		return nil, errClosed
	}
	return s, nil
}

// adopt makes the link wait for the session's end, whoever ends it. It returns
// false when the link is closed.
func (l *Link) adopt(s *session, kind lane) bool {
	gauge := l.observe.metrics.sessions.WithLabelValues(l.observe.host, kind.String())
	return l.spawn(func() {
		gauge.Inc()
		defer gauge.Dec()
		select {
		case <-s.conn.Done():
			if s.end(nil) {
				l.observe.lost(kind, s.lost())
			}
			l.observe.panicked("libvirt call", s.endedBy())
			s.close(nil)
		case <-l.closing:
			s.close(errClosed)
		}
	})
}

// begin makes Close wait for a work.Done, unless the link is closed.
func (l *Link) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.work.Add(1)
	return true
}

// spawn runs fn on a goroutine of the link, unless the link is closed.
func (l *Link) spawn(fn func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.work.Go(fn)
	return true
}

// warm is the session of a lane that is kept between calls.
type warm struct {
	link *Link
	lane lane

	mu      sync.Mutex
	session *session
	dialing *attempt
}

// attempt is a dial under way that all who need its session wait for.
type attempt struct {
	done    chan struct{}
	session *session
	err     error
}

// do makes the call on the lane's session. One that was never sent, because
// the session was lost meanwhile, goes out on the next.
func (w *warm) do(ctx context.Context, c call, fn rpc) error {
	const tries = 3
	for try := 1; ; try++ {
		s, err := w.get(ctx)
		if err != nil {
			return err
		}
		if err = s.do(ctx, c, fn); try == tries || !errors.Is(err, errNotSent) {
			return err
		}
	}
}

// get returns the session, and dials when there is none.
func (w *warm) get(ctx context.Context) (*session, error) {
	w.mu.Lock()
	if w.session != nil && w.session.usable() {
		defer w.mu.Unlock()
		return w.session, nil
	}
	a := w.dialing
	if a == nil {
		a = &attempt{done: make(chan struct{})}
		started := w.link.spawn(func() { w.dial(context.WithoutCancel(ctx), a) })
		if !started {
			w.mu.Unlock()
			return nil, errClosed
		}
		w.dialing = a
	}
	w.mu.Unlock()
	select {
	case <-a.done:
		return a.session, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a connection: %w", context.Cause(ctx))
	}
}

// dial runs for all who wait, so it ends with the link, not with one of them.
func (w *warm) dial(ctx context.Context, a *attempt) {
	a.session, a.err = w.link.open(ctx, w.lane)
	w.mu.Lock()
	w.session, w.dialing = a.session, nil
	w.mu.Unlock()
	close(a.done)
}
