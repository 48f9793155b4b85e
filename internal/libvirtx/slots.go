package libvirtx

import "context"

// libvirtd serves at most five calls of a connection at a time and reads no
// further while they run. One short of that is what a session for slow calls
// takes, so that its reader is never shut out.
const (
	slowSlots  = 4
	agentSlots = 4
	// createSlots of the slow ones are open to creates: a delete never waits
	// for a start that takes its time.
	createSlots = slowSlots - 1
)

// slots bound the calls in flight on one session. The zero value bounds nothing.
type slots struct {
	// all has one place per call, creates one per call that is no delete. A
	// create takes its place in creates first.
	all, creates chan struct{}
}

func newSlots(l lane) slots {
	switch l {
	case laneSlow:
		return slots{all: make(chan struct{}, slowSlots), creates: make(chan struct{}, createSlots)}
	case laneAgent:
		return slots{all: make(chan struct{}, agentSlots)}
	default:
		return slots{}
	}
}

// take waits for a place and returns what gives it back. It fails with the
// context's cause, or errNotSent when the session is gone.
func (s slots) take(ctx context.Context, isDelete bool, gone <-chan struct{}) (func(), error) {
	creates := s.creates
	if isDelete {
		creates = nil
	}
	if err := enter(ctx, creates, gone); err != nil {
		return nil, err
	}
	if err := enter(ctx, s.all, gone); err != nil {
		leave(creates)
		return nil, err
	}
	return func() { leave(s.all); leave(creates) }, nil
}

func enter(ctx context.Context, places chan struct{}, gone <-chan struct{}) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if places == nil {
		return nil
	}
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-gone:
		return errNotSent
	}
}

func leave(places chan struct{}) {
	if places != nil {
		<-places
	}
}
