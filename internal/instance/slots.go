package instance

import (
	"context"
	"sync"
	"time"
)

const (
	// queueFactor times CreatesPerHost is how many unfinished creates one host
	// may have: beyond it a new one is told to come back.
	queueFactor = 32
	// busyRetryAfter is what such a caller is told to wait.
	busyRetryAfter = 10 * time.Second
)

// slots bound the creates that work on one host at a time. A slot is taken
// under the key lock and no slot's holder ever waits for a key, so the two
// cannot block each other.
type slots struct {
	perHost int

	mu    sync.Mutex
	hosts map[string]chan struct{}
}

// acquire waits for a slot until ctx ends. The caller must call release once.
func (s *slots) acquire(ctx context.Context, host string) (release func(), err error) {
	slot := s.of(host)
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *slots) of(host string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hosts == nil {
		s.hosts = map[string]chan struct{}{}
	}
	slot := s.hosts[host]
	if slot == nil {
		slot = make(chan struct{}, s.perHost)
		s.hosts[host] = slot
	}
	return slot
}
