package libvirtx

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func TestCall_deadlineClosesConnectionAndReturnsTransient(t *testing.T) {
	for name, limit := range map[string]struct {
		call func(context.Context, Backend) error
		want time.Duration
	}{
		"read":  {func(ctx context.Context, b Backend) error { _, err := b.ConnectGetHostname(ctx); return err }, 30 * time.Second},
		"start": {func(ctx context.Context, b Backend) error { return b.DomainCreate(ctx, libvirt.Domain{}, 0) }, 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conns := make(chan *fakeConn, 2)
				l := newTestLink(t, LinkOptions{Connector: &fakeConnector{next: func(_ context.Context, n int) (Conn, error) {
					c := newFakeConn(nil)
					if n == 1 {
						c.answer = func(c *fakeConn, _ string) error { return c.hang() }
					}
					conns <- c
					return c, nil
				}}})
				began := time.Now()
				err := limit.call(t.Context(), l.Backend())
				if got := time.Since(began); got != limit.want {
					t.Errorf("answered after %v, want %v", got, limit.want)
				}
				wantTimeout(t, err)
				if got := Classify(err); got != instance.ReasonTimeout || got.Kind() != instance.Transient {
					t.Errorf("got %s (%s), want Timeout (Transient)", got, got.Kind())
				}
				synctest.Wait()
				select {
				case <-(<-conns).Done():
				default:
					t.Error("the connection is still open")
				}
				if err := limit.call(t.Context(), l.Backend()); err != nil {
					t.Errorf("the next call: %v", err)
				}
			})
		})
	}
}

func TestCall_cancelUnblocksRPC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		f := always(func(_ *fakeConn, name string) error {
			if name == "DomainDefineXML" {
				<-letGo
			}
			return nil
		})
		l := newTestLink(t, LinkOptions{Connector: f})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		_, err := l.Backend().DomainDefineXML(ctx, "<domain/>", 0)
		if got := time.Since(began); got != time.Second {
			t.Errorf("answered after %v, want 1s", got)
		}
		if !errors.Is(err, context.Canceled) || Classify(err) != instance.ReasonCancelled {
			t.Errorf("got %v (%s), want a cancellation", err, Classify(err))
		}
		// The session lives: a neighbour is answered by it while the call is out.
		if _, err := l.Backend().ConnectGetLibVersion(t.Context()); err != nil {
			t.Error(err)
		}
		if dials, _ := f.counts(); dials != 1 {
			t.Errorf("got %d dials, want 1", dials)
		}
		close(letGo)
	})
}

func TestCall_abandonedCallStillHasItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := newFakeConn(func(c *fakeConn, _ string) error { return c.hang() })
		l := newTestLink(t, LinkOptions{Connector: &fakeConnector{next: func(context.Context, int) (Conn, error) { return conn, nil }}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Backend().ConnectGetHostname(ctx)
		if Classify(err) != instance.ReasonTimeout {
			t.Errorf("got %v, want a timeout", err)
		}
		began := time.Now()
		<-conn.Done()
		if got := time.Since(began); got != 29*time.Second {
			t.Errorf("the session ended %v after its caller left, want 29s", got)
		}
	})
}

func TestCall_neighboursOfAnOverdueCallAreUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLink(t, LinkOptions{Connector: always(func(c *fakeConn, _ string) error { return c.hang() })})
		first := make(chan error, 1)
		go func() {
			_, err := l.Backend().ConnectGetHostname(t.Context())
			first <- err
		}()
		time.Sleep(time.Second)
		_, err := l.Backend().ConnectGetLibVersion(t.Context())
		wantTimeout(t, <-first)
		if !errors.Is(err, libvirt.ErrInterrupted) || Classify(err) != instance.ReasonUnreachable {
			t.Errorf("neighbour: got %v (%s), want interrupted (Unreachable)", err, Classify(err))
		}
	})
}

func TestCall_expiredContextIsNeverSent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := newTestLink(t, LinkOptions{Connector: always(func(*fakeConn, string) error {
		t.Error("the call was sent")
		return nil
	})})
	if err := l.Backend().DomainDestroy(ctx, libvirt.Domain{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want a cancellation", err)
	}
}

func TestSlots_slowCreatesLeaveRoomForDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		var conn *fakeConn
		l := newTestLink(t, LinkOptions{Connector: &fakeConnector{next: func(context.Context, int) (Conn, error) {
			conn = newFakeConn(func(_ *fakeConn, name string) error {
				if name == "DomainCreate" {
					<-letGo
				}
				return nil
			})
			return conn, nil
		}}})
		answers := make(chan error, 5)
		for range cap(answers) {
			go func() { answers <- l.Backend().DomainCreate(t.Context(), libvirt.Domain{}, 0) }()
		}
		synctest.Wait()
		if got := conn.inUse.Load(); got != 3 {
			t.Errorf("%d creates in flight, want 3", got)
		}
		if err := l.Backend().StorageVolDelete(t.Context(), libvirt.StorageVol{}); err != nil {
			t.Errorf("delete beside five creates: %v", err)
		}
		close(letGo)
		for range cap(answers) {
			if err := <-answers; err != nil {
				t.Errorf("create: %v", err)
			}
		}
	})
}

// libvirtd stops reading a connection at the fifth call, deletes included.
func TestSlots_slowSessionHasFourCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		var conn *fakeConn
		l := newTestLink(t, LinkOptions{Connector: &fakeConnector{next: func(context.Context, int) (Conn, error) {
			conn = newFakeConn(func(*fakeConn, string) error {
				<-letGo
				return nil
			})
			return conn, nil
		}}})
		answers := make(chan error, 10)
		for range cap(answers) {
			go func() { answers <- l.Backend().StorageVolDelete(t.Context(), libvirt.StorageVol{}) }()
		}
		synctest.Wait()
		if got := conn.inUse.Load(); got != 4 {
			t.Errorf("%d calls in flight, want 4", got)
		}
		close(letGo)
		for range cap(answers) {
			if err := <-answers; err != nil {
				t.Errorf("delete: %v", err)
			}
		}
	})
}

func TestSlots_waitingDoesNotCountAgainstTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLink(t, LinkOptions{Connector: always(func(*fakeConn, string) error {
			time.Sleep(80 * time.Second)
			return nil
		})})
		answers := make(chan error, 2*createSlots)
		for range cap(answers) {
			go func() { answers <- l.Backend().DomainCreate(t.Context(), libvirt.Domain{}, 0) }()
		}
		for range cap(answers) {
			if err := <-answers; err != nil {
				t.Errorf("create: %v", err)
			}
		}
	})
}

func TestAgents_waitIsShortAndRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		l := newTestLink(t, LinkOptions{Connector: always(func(_ *fakeConn, _ string) error {
			asked.Add(1)
			time.Sleep(5 * time.Second)
			return libvirt.Error{Code: uint32(libvirt.ErrAgentUnresponsive)}
		})})
		dom := libvirt.Domain{Name: "quiet", UUID: libvirt.UUID{1}}
		ask := func() (time.Duration, error) {
			began := time.Now()
			_, err := l.Backend().DomainInterfaceAddresses(t.Context(), dom, libvirt.DomainInterfaceAddressesSrcAgent)
			took := time.Since(began)
			synctest.Wait()
			return took, err
		}
		took, err := ask()
		wantTimeout(t, err)
		if took != 2*time.Second {
			t.Errorf("answered after %v, want 2s", took)
		}
		quietSince := time.Now()
		took, err = ask()
		if answer, ok := errors.AsType[libvirt.Error](err); !ok || answer.Code != uint32(libvirt.ErrAgentUnresponsive) {
			t.Errorf("got %v, want agent unresponsive", err)
		}
		if took != 0 || asked.Load() != 1 {
			t.Errorf("asked %d times and took %v, want once and at once", asked.Load(), took)
		}
		// Only that domain is remembered, and only for a while.
		other := libvirt.Domain{Name: "other", UUID: libvirt.UUID{2}}
		if _, err := l.Backend().DomainInterfaceAddresses(t.Context(), other, libvirt.DomainInterfaceAddressesSrcAgent); err == nil || asked.Load() != 2 {
			t.Errorf("another domain: got %v after %d askings, want a timeout after 2", err, asked.Load())
		}
		time.Sleep(30*time.Second - time.Since(quietSince) - time.Millisecond)
		if _, _ = ask(); asked.Load() != 2 {
			t.Errorf("asked %d times within 30s, want 2", asked.Load())
		}
		time.Sleep(time.Millisecond)
		if _, _ = ask(); asked.Load() != 3 {
			t.Errorf("asked %d times in all, want 3", asked.Load())
		}
	})
}

// A guest that boots is refused at once, for as long as its agent is not up:
// the first read after that must see it.
func TestAgents_onlyWaitingInVainIsRemembered(t *testing.T) {
	for _, tc := range []struct {
		number    libvirt.ErrorNumber
		takes     time.Duration
		wantAsked int32
	}{
		{libvirt.ErrAgentUnresponsive, time.Millisecond, 2},
		{libvirt.ErrAgentUnresponsive, 5 * time.Second, 1},
		{libvirt.ErrAgentUnsynced, time.Millisecond, 2},
		{libvirt.ErrAgentCommandTimeout, time.Second, 1},
		{libvirt.ErrArgumentUnsupported, time.Millisecond, 2},
		{libvirt.ErrOperationInvalid, time.Millisecond, 2},
		{libvirt.ErrOk, 3 * time.Second, 2}, // late, yet it answers
	} {
		t.Run(fmt.Sprintf("%d after %v", tc.number, tc.takes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int32
				l := newTestLink(t, LinkOptions{Connector: always(func(*fakeConn, string) error {
					asked.Add(1)
					time.Sleep(tc.takes)
					if tc.number == libvirt.ErrOk {
						return nil
					}
					return libvirt.Error{Code: uint32(tc.number)}
				})})
				for range 2 {
					_, _ = l.Backend().DomainInterfaceAddresses(t.Context(), libvirt.Domain{Name: "guest"}, libvirt.DomainInterfaceAddressesSrcAgent)
					time.Sleep(6 * time.Second)
				}
				if got := asked.Load(); got != tc.wantAsked {
					t.Errorf("asked %d times, want %d", got, tc.wantAsked)
				}
			})
		})
	}
}

func TestAgents_slotWaitCountsAndBlamesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLink(t, LinkOptions{Connector: always(func(_ *fakeConn, name string) error {
			if name != "DomainInterfaceAddresses patient" {
				time.Sleep(4 * time.Second)
			}
			return nil
		})})
		agent := func(name string, uuid byte) error {
			_, err := l.Backend().DomainInterfaceAddresses(t.Context(),
				libvirt.Domain{Name: name, UUID: libvirt.UUID{uuid}}, libvirt.DomainInterfaceAddressesSrcAgent)
			return err
		}
		for i := range agentSlots {
			go func() { _ = agent("busy", byte(i)) }()
		}
		synctest.Wait()
		wantTimeout(t, agent("patient", 99)) // no slot within 2 s: the abandoned calls keep theirs
		time.Sleep(3 * time.Second)
		if err := agent("patient", 99); err != nil {
			t.Errorf("got %v, want an answer: the domain was never asked before", err)
		}
	})
}
