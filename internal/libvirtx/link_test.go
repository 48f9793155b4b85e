package libvirtx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func TestNewLink_namesWhatIsMissing(t *testing.T) {
	_, err := NewLink(LinkOptions{})
	for _, want := range []string{"Host", "Connector"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
}

func TestHosts_oneDialPerHostUnderConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeConnector{next: func(context.Context, int) (Conn, error) {
			time.Sleep(time.Second)
			return newFakeConn(nil), nil
		}}
		l := newTestLink(t, LinkOptions{Connector: f})
		if dials, _ := f.counts(); dials != 0 {
			t.Fatalf("NewLink dialed %d times", dials)
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := l.Backend().ConnectGetLibVersion(t.Context()); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				if err := l.Backend().StorageVolDelete(t.Context(), libvirt.StorageVol{}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Go(func() {
			if err := l.Fresh(t.Context(), func(context.Context, Backend) error { return nil }); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		// One for reads, one for slow calls, one for the check: never two at once.
		if dials, atOnce := f.counts(); dials != 3 || atOnce != 1 {
			t.Errorf("got %d dials, %d at once; want 3, 1 at once", dials, atOnce)
		}
	})
}

func TestHosts_redialsAfterDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conns []*fakeConn
		l := newTestLink(t, LinkOptions{Connector: &fakeConnector{next: func(context.Context, int) (Conn, error) {
			conns = append(conns, newFakeConn(nil))
			return conns[len(conns)-1], nil
		}}})
		for want := 1; want <= 50; want++ {
			if _, err := l.Backend().ConnectGetLibVersion(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(conns) != want {
				t.Fatalf("got %d dials, want %d", len(conns), want)
			}
			_ = conns[want-1].Close() // libvirtd restarts
		}
	})
}

func TestLink_callThatWasNotSentGoesOutAgain(t *testing.T) {
	n := 0
	l := newTestLink(t, LinkOptions{Connector: always(func(c *fakeConn, _ string) error {
		if n++; n == 1 {
			_ = c.Close()
			return errNotSent
		}
		return nil
	})})
	if err := l.Backend().DomainCreate(t.Context(), libvirt.Domain{}, 0); err != nil {
		t.Errorf("got %v, want the call made on the next session", err)
	}
}

func TestLink_callThatDiedWithItsSessionIsNotRepeated(t *testing.T) {
	n := 0
	l := newTestLink(t, LinkOptions{Connector: always(func(c *fakeConn, _ string) error {
		n++
		_ = c.Close()
		return libvirt.ErrInterrupted
	})})
	err := l.Backend().DomainCreate(t.Context(), libvirt.Domain{}, 0)
	if !errors.Is(err, libvirt.ErrInterrupted) || n != 1 {
		t.Errorf("got %v after %d calls, want interrupted after 1", err, n)
	}
}

func TestDialer_failureIsSharedAndSoonForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		f := &fakeConnector{next: func(context.Context, int) (Conn, error) {
			time.Sleep(time.Second)
			return nil, refused
		}}
		l := newTestLink(t, LinkOptions{Connector: f})
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				b := l.Backend()
				var err error
				if i%2 == 0 {
					_, err = b.ConnectGetLibVersion(t.Context())
				} else {
					err = b.DomainDestroy(t.Context(), libvirt.Domain{})
				}
				if !errors.Is(err, refused) {
					t.Errorf("got %v, want refused", err)
				}
			})
		}
		all.Wait()
		if dials, _ := f.counts(); dials != 1 {
			t.Errorf("%d dials for 20 callers of a dead host, want 1", dials)
		}
		// Over two minutes of asking ten times a second, the host is dialed
		// again and again, and never more than backoffMax after a failure.
		var last, longest time.Duration
		began := time.Now()
		for time.Since(began) < 2*time.Minute {
			before, _ := f.counts()
			_, _ = l.Backend().ConnectGetLibVersion(t.Context())
			if after, _ := f.counts(); after != before {
				longest = max(longest, time.Since(began)-last)
				last = time.Since(began)
			}
			time.Sleep(100 * time.Millisecond)
		}
		dials, _ := f.counts()
		if dials < 20 {
			t.Errorf("only %d dials in two minutes", dials)
		}
		if bound := backoffMax + 2*time.Second; longest > bound {
			t.Errorf("%v without a dial, want at most %v", longest, bound)
		}
	})
}

func TestDialer_healthCheckSeesForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeConnector{next: func(_ context.Context, n int) (Conn, error) {
			if n == 1 {
				return nil, errors.New("refused")
			}
			return newFakeConn(nil), nil
		}}
		l := newTestLink(t, LinkOptions{Connector: f})
		if _, err := l.Backend().ConnectGetLibVersion(t.Context()); err == nil {
			t.Fatal("the first dial did not fail")
		}
		if err := l.Fresh(t.Context(), func(context.Context, Backend) error { return nil }); err != nil {
			t.Errorf("got %v, want a dial of its own", err)
		}
		// And what it found out counts for the others.
		if _, err := l.Backend().ConnectGetLibVersion(t.Context()); err != nil {
			t.Errorf("after a good check: %v", err)
		}
	})
}

func TestDialer_callerWhoLeavesSaysNothingOfTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeConnector{next: func(ctx context.Context, n int) (Conn, error) {
			if n == 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return newFakeConn(nil), nil
		}}
		l := newTestLink(t, LinkOptions{Connector: f})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Fresh(ctx, func(context.Context, Backend) error { return nil }); Classify(err) != instance.ReasonTimeout {
			t.Errorf("got %v, want a timeout", err)
		}
		if _, err := l.Backend().ConnectGetLibVersion(t.Context()); err != nil {
			t.Errorf("got %v, want a dial", err)
		}
	})
}

func TestDialer_limitBoundsADialThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLink(t, LinkOptions{Connector: &fakeConnector{next: func(ctx context.Context, _ int) (Conn, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}})
		began := time.Now()
		_, err := l.Backend().ConnectGetLibVersion(t.Context())
		wantTimeout(t, err)
		if got := time.Since(began); got != 10*time.Second {
			t.Errorf("answered after %v, want 10s", got)
		}
	})
}

func TestLink_callerOfAColdHostLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeConnector{next: func(context.Context, int) (Conn, error) {
			time.Sleep(5 * time.Second)
			return newFakeConn(nil), nil
		}}
		l := newTestLink(t, LinkOptions{Connector: f})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := l.Backend().ConnectGetLibVersion(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		if got := time.Since(began); got != time.Second {
			t.Errorf("answered after %v, want 1s", got)
		}
		// The dial goes on, and the next caller finds it done.
		time.Sleep(5 * time.Second)
		if _, err := l.Backend().ConnectGetLibVersion(t.Context()); err != nil {
			t.Error(err)
		}
		if dials, _ := f.counts(); dials != 1 {
			t.Errorf("got %d dials, want 1", dials)
		}
	})
}

func TestLink_largeTransferHasAConnectionOfItsOwn(t *testing.T) {
	for _, row := range []struct {
		bytes int64
		dials int
	}{{4 << 20, 1}, {4<<20 + 1, 2}} {
		t.Run(fmt.Sprint(row.bytes), func(t *testing.T) {
			f := always(nil)
			l := newTestLink(t, LinkOptions{Connector: f})
			if err := l.Backend().DomainDestroy(t.Context(), libvirt.Domain{}); err != nil { // warms the slow session
				t.Fatal(err)
			}
			src := io.LimitReader(zeroes{}, row.bytes)
			if err := l.Backend().StorageVolUpload(t.Context(), libvirt.StorageVol{}, src, 0, uint64(row.bytes)); err != nil {
				t.Fatal(err)
			}
			if dials, _ := f.counts(); dials != row.dials {
				t.Errorf("got %d dials, want %d", dials, row.dials)
			}
		})
	}
}

func TestLink_closeEndsCallsAndDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLink(t, LinkOptions{Connector: &fakeConnector{next: func(ctx context.Context, n int) (Conn, error) {
			if n == 1 {
				return newFakeConn(func(c *fakeConn, _ string) error { return c.hang() }), nil
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}})
		answers := make(chan error, 3)
		go func() { _, err := l.Backend().ConnectGetLibVersion(t.Context()); answers <- err }()
		synctest.Wait()
		go func() { answers <- l.Backend().DomainDestroy(t.Context(), libvirt.Domain{}) }()
		go func() {
			answers <- l.Fresh(t.Context(), func(context.Context, Backend) error { return nil })
		}()
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		for range cap(answers) {
			if err := <-answers; Classify(err) != instance.ReasonShuttingDown {
				t.Errorf("got %v (%s), want ShuttingDown", err, Classify(err))
			}
		}
		if _, err := l.Backend().ConnectGetLibVersion(t.Context()); Classify(err) != instance.ReasonShuttingDown {
			t.Errorf("after Close: got %v, want ShuttingDown", err)
		}
	})
}

// zeroes never ends.
type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }
