package instance

import (
	"context"
	"sync"
)

// keyLock lets the work on one name run one after the other, in the order in
// which it came. The zero value is ready. A key takes memory only while
// somebody holds or awaits it.
type keyLock struct {
	mu   sync.Mutex
	keys map[ID]*keyQueue
}

type keyQueue struct {
	// turn holds one token; blocked senders are served first come, first served.
	turn  chan struct{}
	users int
}

// lock waits for the key until ctx ends. The caller must call unlock once.
func (l *keyLock) lock(ctx context.Context, key ID) (unlock func(), err error) {
	q := l.enter(key)
	select {
	case q.turn <- struct{}{}:
	default:
		select {
		case q.turn <- struct{}{}:
		case <-ctx.Done():
			l.leave(key, q)
			return nil, context.Cause(ctx)
		}
	}
	return func() {
		<-q.turn
		l.leave(key, q)
	}, nil
}

func (l *keyLock) enter(key ID) *keyQueue {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keys == nil {
		l.keys = map[ID]*keyQueue{}
	}
	q := l.keys[key]
	if q == nil {
		q = &keyQueue{turn: make(chan struct{}, 1)}
		l.keys[key] = q
	}
	q.users++
	return q
}

func (l *keyLock) leave(key ID, q *keyQueue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.users--; q.users == 0 {
		delete(l.keys, key)
	}
}
