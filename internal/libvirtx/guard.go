package libvirtx

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// guard is the net.Conn that the RPC library works on. The library trusts its
// peer: it makes slices of whatever length one claims, which takes the process
// down, and locks up over an answer that nobody waits for. The guard hands on
// whole frames that were looked at, and ends the connection at a bad one. It
// also knows when the connection is gone, which the library does not tell
// reliably, and sees to it that the library learns of the end only once it has
// finished opening: it would otherwise read a field that the opener still writes.
type guard struct {
	net.Conn
	// shut ends everything below: the SSH client, not only its channel, whose
	// blocked Read and Write nothing else frees.
	shut func() error

	calls callBook
	// frames, rest and end belong to Read, which one goroutine calls; rest is what
	// is left of the frame that is being handed on.
	frames *frameReader
	rest   []byte
	end    error
	// sent belongs to Write, which the library calls one at a time.
	sent frameWriter
	// garbage is the frame error, for others to read.
	garbage atomic.Pointer[frameError]

	// opened is closed when the library is done opening.
	opened  chan struct{}
	release sync.Once
	done    chan struct{}
	ended   sync.Once
	shutErr error
	// cause is what ended the connection, nil when we did; set before done.
	cause error
}

func newGuard(conn net.Conn, shut func() error) *guard {
	g := &guard{Conn: conn, shut: shut, opened: make(chan struct{}), done: make(chan struct{})}
	g.frames = newFrameReader(conn, &g.calls)
	g.sent.calls = &g.calls
	return g
}

// Read hands on the frames that somebody waits for. Any error is final.
func (g *guard) Read(p []byte) (int, error) {
	if len(g.rest) == 0 && g.end == nil {
		g.rest, g.end = g.frames.next()
		if bad, ok := errors.AsType[*frameError](g.end); ok {
			g.garbage.Store(bad)
		}
	}
	if g.end == nil {
		n := copy(p, g.rest)
		g.rest = g.rest[n:]
		return n, nil
	}
	_ = g.abort(g.end)
	if g.frames.sawOpenReply {
		<-g.opened
	}
	return 0, endError{g.end}
}

// Write ends the connection when it fails: half a frame may be on its way.
func (g *guard) Write(p []byte) (int, error) {
	g.sent.note(p)
	n, err := g.Conn.Write(p)
	if err != nil {
		_ = g.abort(err)
	}
	return n, err
}

// Close is abort for the library, which calls it when its opening failed and
// waits for Read to end, and for the owner once the opening is over.
func (g *guard) Close() error {
	g.finishOpening()
	return g.abort(nil)
}

// abort ends the connection and frees whoever is blocked in Read or Write.
func (g *guard) abort(cause error) error {
	g.ended.Do(func() {
		g.cause = cause
		close(g.done)
		g.shutErr = g.shut()
	})
	return g.shutErr
}

// finishOpening lets the library learn of the connection's end.
func (g *guard) finishOpening() {
	g.release.Do(func() { close(g.opened) })
}

// endError hides whatever a net.OpError says of being temporary: the library
// would read on for ever.
type endError struct{ error }

func (e endError) Unwrap() error { return e.error }
