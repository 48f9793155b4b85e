package libvirtx

import (
	"context"
	"sync"
	"time"
)

// usage tells when a link was last needed. The zero value is one that never was.
type usage struct {
	mu    sync.Mutex
	calls int
	ended time.Time
}

func (u *usage) begin() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls++
}

func (u *usage) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls--
	u.ended = time.Now()
}

// idleSince returns when the last call ended, and now while one is under way.
func (u *usage) idleSince(now time.Time) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls > 0 {
		return now
	}
	return u.ended
}

// Retire closes a link whose host is spoken to over another one by now. Work
// that began on it goes on: the link is closed once no call was made for as long
// as the longest one may take, counted from now at the earliest, and at once
// when ctx ends. Retire returns when it is closed, as Close does.
func (l *Link) Retire(ctx context.Context) error {
	quiet := l.limits.Call + l.limits.Start
	from := time.Now()
	for {
		now := time.Now()
		if since := l.usage.idleSince(now); since.After(from) {
			from = since
		}
		left := quiet - now.Sub(from)
		if left <= 0 {
			return l.Close()
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return l.Close()
		}
	}
}
