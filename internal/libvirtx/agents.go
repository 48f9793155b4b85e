package libvirtx

import (
	"errors"
	"sync"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
)

// quietFor is how long a guest whose agent took too long is not asked again.
const quietFor = 30 * time.Second

// quietAgents remembers the domains whose agent let a caller wait in vain, so
// that one hung agent does not make every read wait. What libvirt refuses at
// once cost nobody anything and is asked again each time: an agent that is not
// up yet (86) while its guest boots, no channel for one (74), a domain that is
// off (55). The zero value is ready to use.
type quietAgents struct {
	mu    sync.Mutex
	until map[libvirt.UUID]time.Time
}

// remembered returns what libvirt would say of an agent that was just found quiet.
func (q *quietAgents) remembered(dom libvirt.UUID) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !time.Now().Before(q.until[dom]) {
		return nil
	}
	return libvirt.Error{
		Code:    uint32(libvirt.ErrAgentUnresponsive),
		Message: "the guest's agent did not answer when it was last asked",
	}
}

// expect marks the domain if its agent has not answered within limit, whether
// or not somebody still waits for it.
func (q *quietAgents) expect(dom libvirt.UUID, limit time.Duration) *time.Timer {
	return time.AfterFunc(limit, func() { q.mark(dom) })
}

// answered ends what expect began.
func (q *quietAgents) answered(dom libvirt.UUID, late *time.Timer, err error) {
	late.Stop()
	answer, isAnswer := errors.AsType[libvirt.Error](err)
	switch {
	case isAnswer && libvirt.ErrorNumber(answer.Code) == libvirt.ErrAgentCommandTimeout:
		q.mark(dom)
	case err == nil:
		q.mu.Lock()
		delete(q.until, dom)
		q.mu.Unlock()
	}
}

func (q *quietAgents) mark(dom libvirt.UUID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if q.until == nil {
		q.until = map[libvirt.UUID]time.Time{}
	}
	for other, until := range q.until {
		if !now.Before(until) {
			delete(q.until, other)
		}
	}
	q.until[dom] = now.Add(quietFor)
}
