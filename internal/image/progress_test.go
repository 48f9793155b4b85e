package image

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress_rate: that of the last whole window, and before there is one that
// since the start; never one of no time at all.
func TestProgress_rate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgress(1 << 20)
		p.add(500)
		want := func(at string, rate int64) {
			t.Helper()
			if got := p.read().bytesPerSecond; got != rate {
				t.Errorf("%s: got %d bytes per second, want %d", at, got, rate)
			}
		}
		want("at the start", 0)
		time.Sleep(time.Second)
		want("after 1 s", 500)
		time.Sleep(500 * time.Millisecond)
		p.add(1000)
		want("after 1.5 s", 1000)
		time.Sleep(500 * time.Millisecond)
		want("after the first window", 750)
		time.Sleep(time.Second)
		p.add(10)
		want("in the second window", 750)
		time.Sleep(time.Second)
		want("after the second window", 5)
	})
}
