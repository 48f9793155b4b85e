package libvirtx

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
)

// fakeConn is a connection whose calls do what answer says. Like libvirt it
// takes no notice of a context; like the wire it lets go of a call when closed.
type fakeConn struct {
	Backend
	// answer gets the method's name; nil answers nil.
	answer func(c *fakeConn, name string) error

	done  chan struct{}
	once  sync.Once
	inUse atomic.Int32
}

func newFakeConn(answer func(*fakeConn, string) error) *fakeConn {
	return &fakeConn{answer: answer, done: make(chan struct{})}
}

func (c *fakeConn) Close() error          { c.once.Do(func() { close(c.done) }); return nil }
func (c *fakeConn) Done() <-chan struct{} { return c.done }

// hang is an answer that never comes.
func (c *fakeConn) hang() error {
	<-c.done
	return libvirt.ErrInterrupted
}

func (c *fakeConn) made(name string) error {
	c.inUse.Add(1)
	defer c.inUse.Add(-1)
	if c.answer == nil {
		return nil
	}
	return c.answer(c, name)
}

func (c *fakeConn) ConnectGetLibVersion(context.Context) (uint64, error) {
	return 9000000, c.made("ConnectGetLibVersion")
}

func (c *fakeConn) ConnectGetHostname(context.Context) (string, error) {
	return "h1", c.made("ConnectGetHostname")
}

func (c *fakeConn) DomainCreate(context.Context, libvirt.Domain, libvirt.DomainCreateFlags) error {
	return c.made("DomainCreate")
}

func (c *fakeConn) DomainDefineXML(context.Context, string, libvirt.DomainDefineFlags) (libvirt.Domain, error) {
	return libvirt.Domain{}, c.made("DomainDefineXML")
}

func (c *fakeConn) DomainDestroy(context.Context, libvirt.Domain) error {
	return c.made("DomainDestroy")
}

func (c *fakeConn) StorageVolDelete(context.Context, libvirt.StorageVol) error {
	return c.made("StorageVolDelete")
}

func (c *fakeConn) DomainInterfaceAddresses(_ context.Context, dom libvirt.Domain, _ libvirt.DomainInterfaceAddressesSource) ([]libvirt.DomainInterface, error) {
	return nil, c.made("DomainInterfaceAddresses " + dom.Name)
}

func (c *fakeConn) StorageVolUpload(_ context.Context, _ libvirt.StorageVol, src io.Reader, _, _ uint64) error {
	if _, err := io.Copy(io.Discard, src); err != nil {
		return err
	}
	return c.made("StorageVolUpload")
}

// fakeConnector hands out connections made by next, and counts.
type fakeConnector struct {
	next func(ctx context.Context, n int) (Conn, error)

	mu       sync.Mutex
	dials    int
	inFlight int
	maxAtOne int
}

// always connects to a connection that answers so.
func always(answer func(*fakeConn, string) error) *fakeConnector {
	return &fakeConnector{next: func(context.Context, int) (Conn, error) { return newFakeConn(answer), nil }}
}

func (f *fakeConnector) Connect(ctx context.Context) (Conn, error) {
	f.mu.Lock()
	f.dials++
	n := f.dials
	f.inFlight++
	f.maxAtOne = max(f.maxAtOne, f.inFlight)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.inFlight--
		f.mu.Unlock()
	}()
	return f.next(ctx, n)
}

func (f *fakeConnector) counts() (dials, maxAtOnce int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dials, f.maxAtOne
}

// newTestLink makes a link that is closed with the test.
func newTestLink(t *testing.T, o LinkOptions) *Link {
	t.Helper()
	if o.Host == "" {
		o.Host = "h1"
	}
	l, err := NewLink(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// eventually polls until ok, for at most ten seconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("not within 10 s: %s", what)
		case <-tick.C:
		}
	}
}

func wantTimeout(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*overdueError](err); !ok {
		t.Errorf("got %v, want an overdueError", err)
	}
}
