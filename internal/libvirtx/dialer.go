package libvirtx

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// After a failed dial the next is put off by a random time up to a bound
	// that starts at backoffFirst and doubles up to backoffMax. Until then the
	// failure is the answer, so no caller meets one older than backoffMax.
	backoffFirst = 250 * time.Millisecond
	backoffMax   = 3 * time.Second
)

// dialer connects to one host, one dial at a time whoever asks: sshd drops
// whom it finds too many (MaxStartups).
type dialer struct {
	connector Connector
	limit     time.Duration
	observe   observer
	// turn holds whoever dials.
	turn chan struct{}

	mu sync.Mutex
	// failure is what the last dial ended with, nil after a success.
	failure error
	retryAt time.Time
	// failures counts all, inARow those since the last success.
	failures, inARow int
}

func newDialer(connector Connector, limit time.Duration, o observer) *dialer {
	return &dialer{connector: connector, limit: limit, observe: o, turn: make(chan struct{}, 1)}
}

// connect waits for its turn and dials. A dial that failed while it waited
// answers for it too, and so does one that failed a moment ago, unless the
// connection is for a health check, which is to see for itself.
func (d *dialer) connect(ctx context.Context, kind lane) (Conn, error) {
	before, err := d.remembered(kind)
	if err != nil {
		return nil, err
	}
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := d.failedSince(before); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, d.limit, &overdueError{what: "dial", limit: d.limit})
	defer cancel()
	conn, err := d.observe.dial(limited, kind, d.connector)
	// A caller who left says nothing about the host.
	if ctx.Err() == nil {
		d.record(err)
	}
	return conn, err
}

// remembered returns how many dials have failed so far, and a failure that is
// still the answer.
func (d *dialer) remembered(kind lane) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if kind == laneFresh || !time.Now().Before(d.retryAt) {
		return d.failures, nil
	}
	return d.failures, d.failure
}

// failedSince returns the last dial's failure if it came after the first before.
func (d *dialer) failedSince(before int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failures == before {
		return nil
	}
	return d.failure
}

func (d *dialer) record(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failure = err
	if err == nil {
		d.inARow, d.retryAt = 0, time.Time{}
		return
	}
	bound := min(backoffMax, backoffFirst<<min(d.inARow, 8))
	d.failures++
	d.inARow++
	d.retryAt = time.Now().Add(rand.N(bound))
}
