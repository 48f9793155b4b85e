package libvirtx

import (
	"context"
	"errors"
	"fmt"
	"sync"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// session is one connection and the only place where a call is made. libvirt
// cannot withdraw a call, so a caller that leaves is answered at once while the
// call ends by itself; one that passes its limit costs the session, because
// nothing less frees what is blocked on it.
type session struct {
	conn   Conn
	limits Limits
	slots  slots
	// left is told of each caller that left before its answer.
	left func(call)

	mu sync.Mutex
	// ended: nothing is started any more. cause says why, for the neighbours of
	// the call that ended it.
	ended bool
	cause error
	work  sync.WaitGroup
}

func newSession(conn Conn, l lane, limits Limits, left func(call)) *session {
	return &session{conn: conn, limits: limits, slots: newSlots(l), left: left}
}

// do waits for a slot, makes the call, and returns when it is answered, when
// ctx ends, or when the call passes its limit. errNotSent means that it was
// never made. The error of a session that died is libvirt's ErrInterrupted:
// whether the call was done is unknown.
func (s *session) do(ctx context.Context, c call, fn rpc) error {
	release, err := s.slots.take(ctx, c.isDelete, s.conn.Done())
	if err != nil {
		return fmt.Errorf("wait for a turn: %w", err)
	}
	runCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	clk := newClock(s.limits, c.limit)
	a := &answer{done: make(chan struct{})}
	started := s.spawn(func() {
		defer release()
		defer clk.timer.Stop()
		defer cancel(nil)
		defer close(a.done)
		a.err = s.guarded(func() error {
			return fn(runCtx, s.conn, inflight{progress: clk.progress, wait: clk.wait, spawn: s.spawn})
		})
	})
	if !started {
		clk.timer.Stop()
		cancel(nil)
		release()
		return errNotSent
	}
	select {
	case <-a.done:
		return s.explain(a.err)
	case <-ctx.Done():
		return s.abandon(ctx, c, clk, a, cancel)
	case <-clk.timer.C:
		return s.expire(c, clk, cancel)
	}
}

// guarded runs a call. One that panics costs the session, since nobody knows what
// it left locked.
func (s *session) guarded(call func() error) error {
	returned := false
	err := instance.Guard(func() error {
		err := call()
		returned = true
		return err
	})
	if !returned {
		s.end(err)
	}
	return err
}

// answer is what a call ended with; err may be read once done is closed.
type answer struct {
	done chan struct{}
	err  error
}

// abandon leaves a call behind whose caller has gone: someone must still see
// to it that it ends. The source or sink of a transfer is told to stop.
func (s *session) abandon(ctx context.Context, c call, clk *clock, a *answer, cancel context.CancelCauseFunc) error {
	select {
	case <-a.done:
		return s.explain(a.err)
	default:
	}
	why := context.Cause(ctx)
	if c.limit == limitPace {
		cancel(why)
	}
	s.left(c)
	s.spawn(func() {
		select {
		case <-a.done:
		case <-clk.timer.C:
			cancel(clk.overdue(c.name))
			s.end(clk.overdue(c.name))
		case <-s.conn.Done():
		}
	})
	return fmt.Errorf("%s: the caller did not wait for the answer: %w", c.name, why)
}

// expire ends the session for a call that passed its limit.
func (s *session) expire(c call, clk *clock, cancel context.CancelCauseFunc) error {
	err := clk.overdue(c.name)
	cancel(err)
	s.end(err)
	return err
}

// explain says of an interrupted call what interrupted it.
func (s *session) explain(err error) error {
	if !errors.Is(err, libvirt.ErrInterrupted) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, byNeighbour := errors.AsType[*overdueError](s.cause); byNeighbour {
		return fmt.Errorf("%w: the connection was closed because of another call (%s)", err, s.cause.Error())
	}
	if s.cause != nil {
		return s.cause
	}
	return fmt.Errorf("%w: the connection was lost (%w)", err, s.lost())
}

// lost is why the connection went away without our doing, as far as it tells.
func (s *session) lost() error {
	if c, ok := s.conn.(interface{ Cause() error }); ok {
		if err := c.Cause(); err != nil {
			return err
		}
	}
	return errHungUp
}

// spawn runs fn on a goroutine of the session, unless the session has ended.
func (s *session) spawn(fn func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.work.Go(fn)
	return true
}

// usable reports whether a call may still be made.
func (s *session) usable() bool {
	select {
	case <-s.conn.Done():
		return false
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended
}

// end closes the connection, which frees every call on it, and does not wait
// for that. The first cause counts, and only its end returns true; nil says
// that the connection was lost.
func (s *session) end(cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.ended, s.cause = true, cause
	s.work.Go(func() { _ = s.conn.Close() })
	return true
}

// endedBy returns the cause of the end.
func (s *session) endedBy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// close is end, and waits for the session's goroutines.
func (s *session) close(cause error) {
	s.end(cause)
	s.work.Wait()
}
