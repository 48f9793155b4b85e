package libvirtx

import (
	"context"
	"log/slog"
	"math"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
)

// lane says which of a link's sessions serves a call.
type lane int

const (
	// laneFast: reads and small writes that libvirtd answers from memory.
	laneFast lane = iota
	// laneSlow: what waits for an emulator, a file system or a process.
	laneSlow
	// laneAgent: what waits for software inside a guest.
	laneAgent
	// laneTransfer: a session of its own, for the time of one call.
	laneTransfer
	// laneFresh: a session of its own, for several calls.
	laneFresh
)

func (l lane) String() string {
	return [...]string{"fast", "slow", "agent", "transfer", "fresh"}[l]
}

// limitKind says which of the Limits bounds a call once it was sent.
type limitKind int

const (
	limitCall limitKind = iota
	limitStart
	// limitPace is Stall, counted anew at each progress and not while the
	// transfer waits for its source, within Transfer.
	limitPace
)

// call is one call on its way: what it is, where it goes, how long it may take.
type call struct {
	name  string
	lane  lane
	limit limitKind
	// isDelete: it may take the slot that creates leave free.
	isDelete bool
	// domain is whose agent is asked, in laneAgent.
	domain libvirt.UUID
	// subject and detail go into the log line and the line of details.
	subject, detail slog.Attr
}

// rpc makes the call on a session's connection. It may outlive its caller, so
// it writes only what nobody reads before it is done. ctx has the caller's
// values; it ends early only for a transfer that is to stop.
type rpc func(ctx context.Context, b Backend, in inflight) error

// inflight is what a call in flight may ask of its session.
type inflight struct {
	// progress puts off the end of a call that goes by limitPace.
	progress func()
	// wait does so until the next progress: what is awaited has limits of its own.
	wait func()
	// spawn runs something that the call needs and the session waits for;
	// false when the session has ended.
	spawn func(func()) bool
}

// runner gets calls made: a session makes them, a Link chooses the session, an
// observed runner watches.
type runner interface {
	do(ctx context.Context, c call, fn rpc) error
}

// clock is the timer of one call in flight.
type clock struct {
	timer *time.Timer
	kind  limitKind
	// stall is what progress puts the timer to, until end.
	stall time.Duration
	end   time.Time
	limit time.Duration
}

func newClock(l Limits, kind limitKind) *clock {
	c := &clock{kind: kind, stall: l.Stall}
	switch kind {
	case limitStart:
		c.limit = l.Start
	case limitPace:
		c.limit = l.Stall
		if l.Transfer > 0 {
			c.end = time.Now().Add(l.Transfer)
			c.limit = min(c.limit, l.Transfer)
		}
	case limitCall:
		c.limit = l.Call
	}
	c.timer = time.NewTimer(c.limit)
	return c
}

// progress, like wait, is for the goroutine that makes the call.
func (c *clock) progress() { c.extend(c.stall) }

func (c *clock) wait() { c.extend(math.MaxInt64) }

// extend gives a call by limitPace so much more time, within its total.
func (c *clock) extend(left time.Duration) {
	if c.kind != limitPace {
		return
	}
	if !c.end.IsZero() {
		left = min(left, time.Until(c.end))
	}
	c.timer.Reset(max(left, 0))
}

// overdue says what passed.
func (c *clock) overdue(name string) error {
	e := &overdueError{what: name, limit: c.limit}
	if c.kind == limitPace {
		e.what += " made no progress, or did not end in its time"
	}
	return e
}
