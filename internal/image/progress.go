package image

import (
	"sync"
	"time"
)

// rateWindow is how long bytes are counted for one figure of the rate.
const rateWindow = 2 * time.Second

// progress is how far a download is, safe for concurrent use.
type progress struct {
	mu        sync.Mutex
	startedAt time.Time
	attempt   int
	done      int64
	total     int64
	// taken is every byte that came, those that come again too.
	taken int64

	windowStart time.Time
	windowBytes int64
	rate        int64
}

// snapshot is a progress at one moment. Bytes are of the source, so of the
// compressed file when it is compressed, and twice that then: it is read twice.
type snapshot struct {
	startedAt      time.Time
	attempt        int
	done           int64
	total          int64
	taken          int64
	bytesPerSecond int64
}

func newProgress(total int64) *progress {
	now := time.Now()
	return &progress{startedAt: now, windowStart: now, total: total}
}

// restart sets the count to done of total bytes: what was done before is done again.
func (p *progress) restart(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.total = done, total
}

// connecting counts one more request to the source.
func (p *progress) connecting() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempt++
}

// add counts n bytes of the source.
func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += int64(n)
	p.taken += int64(n)
	p.windowBytes += int64(n)
	p.roll(time.Now())
}

// roll closes a rate window that has run its time.
func (p *progress) roll(now time.Time) {
	elapsed := now.Sub(p.windowStart)
	if elapsed < rateWindow {
		return
	}
	p.rate = int64(float64(p.windowBytes) / elapsed.Seconds())
	p.windowStart, p.windowBytes = now, 0
}

func (p *progress) read() snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.roll(now)
	rate := p.rate
	if elapsed := now.Sub(p.startedAt); elapsed < rateWindow && elapsed > 0 {
		rate = int64(float64(p.done) / elapsed.Seconds())
	}
	return snapshot{
		startedAt: p.startedAt, attempt: p.attempt, done: p.done, total: p.total, taken: p.taken, bytesPerSecond: rate,
	}
}
