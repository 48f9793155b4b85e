package libvirtx

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
)

// retireLimits make a link quiet after two minutes.
var retireLimits = Limits{Call: 30 * time.Second, Start: 90 * time.Second}

func TestRetire_waitsForWorkAndForAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLink(t, LinkOptions{Limits: retireLimits, Connector: always(func(*fakeConn, string) error {
			time.Sleep(20 * time.Second)
			return nil
		})})
		call := func() {
			if _, err := l.Backend().ConnectGetLibVersion(t.Context()); err != nil {
				t.Errorf("a call on a link that retires: %v", err)
			}
		}
		began := time.Now()
		var retired time.Duration
		var wg sync.WaitGroup
		wg.Go(call)
		wg.Go(func() {
			if err := l.Retire(t.Context()); err != nil {
				t.Error(err)
			}
			retired = time.Since(began)
		})
		// The work goes on: another call a minute after the first.
		time.Sleep(80 * time.Second)
		call()
		wg.Wait()
		if want := 100*time.Second + 2*time.Minute; retired != want {
			t.Errorf("retired after %v, want %v: the pause after the last call", retired, want)
		}
		if _, err := l.Backend().ConnectGetLibVersion(t.Context()); Classify(err) != Classify(errClosed) {
			t.Errorf("a call afterwards: got %v, want a closed link", err)
		}
	})
}

// TestRetire_waitsForWhatTakesLonger: work that is under way is no pause, however
// long it takes.
func TestRetire_waitsForWhatTakesLonger(t *testing.T) {
	const long = 10 * time.Minute
	limits := retireLimits
	limits.Stall, limits.Transfer = time.Hour, time.Hour
	for name, work := range map[string]func(context.Context, *Link) error{
		"upload": func(ctx context.Context, l *Link) error {
			return l.Backend().StorageVolUpload(ctx, libvirt.StorageVol{}, strings.NewReader("x"), 0, 1)
		},
		"on a connection of its own": func(ctx context.Context, l *Link) error {
			return l.Fresh(ctx, func(context.Context, Backend) error {
				time.Sleep(long)
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTestLink(t, LinkOptions{Limits: limits, Connector: always(func(*fakeConn, string) error {
					time.Sleep(long)
					return nil
				})})
				worked := make(chan error, 1)
				go func() { worked <- work(t.Context(), l) }()
				synctest.Wait()
				began := time.Now()
				if err := l.Retire(t.Context()); err != nil {
					t.Error(err)
				}
				if err := <-worked; err != nil {
					t.Errorf("the work: %v", err)
				}
				if got, want := time.Since(began), long+2*time.Minute; got != want {
					t.Errorf("retired after %v, want %v: the pause after the work", got, want)
				}
			})
		})
	}
}

func TestRetire_endsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLink(t, LinkOptions{Limits: retireLimits, Connector: always((*fakeConn).hangNamed)})
		failed := make(chan error, 1)
		go func() {
			_, err := l.Backend().ConnectGetLibVersion(t.Context())
			failed <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := l.Retire(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("retired after %v, want 1s", took)
		}
		if err := <-failed; err == nil {
			t.Error("the call that was under way: got no error")
		}
	})
}

func (c *fakeConn) hangNamed(string) error { return c.hang() }
