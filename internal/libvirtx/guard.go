package libvirtx

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
)

// The frame of libvirt's RPC, as far as the guard reads it: length (itself
// included), program, version, procedure, type, serial, status; big endian.
const (
	frameHeaderBytes = 28
	// maxFrameBytes is libvirt's limit for a message, header included.
	maxFrameBytes = 32<<20 + frameHeaderBytes

	programRemote   = 0x20008086
	procConnectOpen = 1
	typeReply       = 1
)

// guard is the net.Conn that the RPC library works on. The library makes a
// slice of whatever length a peer claims and takes the process down with it;
// the guard ends the connection instead. It also knows when the connection is
// gone, which the library does not tell reliably, and sees to it that the
// library learns of the end only once it has finished opening: it would
// otherwise read a field that the opener still writes.
type guard struct {
	net.Conn
	// shut ends everything below: the SSH client, not only its channel, whose
	// blocked Read and Write nothing else frees.
	shut func() error

	// frames and end belong to Read, which one goroutine calls.
	frames frameScanner
	end    error
	// garbage is the frame error, for others to read.
	garbage atomic.Pointer[frameError]

	// opened is closed when the library is done opening.
	opened  chan struct{}
	release sync.Once
	done    chan struct{}
	ended   sync.Once
	shutErr error
}

func newGuard(conn net.Conn, shut func() error) *guard {
	return &guard{Conn: conn, shut: shut, opened: make(chan struct{}), done: make(chan struct{})}
}

// Read checks every frame header in what it hands on. Any error is final.
func (g *guard) Read(p []byte) (int, error) {
	if g.end == nil {
		n, err := g.Conn.Read(p)
		if checked, bad := g.frames.scan(p[:n]); bad != nil {
			n, err = checked, bad
			g.garbage.Store(bad)
		}
		g.end = err
		if n > 0 || err == nil {
			return n, nil
		}
	}
	_ = g.abort()
	if g.frames.sawOpenReply {
		<-g.opened
	}
	return 0, endError{g.end}
}

// Write ends the connection when it fails: half a frame may be on its way.
func (g *guard) Write(p []byte) (int, error) {
	n, err := g.Conn.Write(p)
	if err != nil {
		_ = g.abort()
	}
	return n, err
}

// Close is abort for the library, which calls it when its opening failed and
// waits for Read to end, and for the owner once the opening is over.
func (g *guard) Close() error {
	g.finishOpening()
	return g.abort()
}

// abort ends the connection and frees whoever is blocked in Read or Write.
func (g *guard) abort() error {
	g.ended.Do(func() {
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

// frameScanner follows the frames in a stream.
type frameScanner struct {
	header [frameHeaderBytes]byte
	// have is how much of header is filled, rest how much of the frame follows it.
	have, rest int
	// sawOpenReply: the reply that ends the library's opening has passed whole.
	sawOpenReply bool
	openReply    bool
}

// scan goes over b and returns how much of it may be handed on, and an error
// at the first frame whose length cannot be.
func (s *frameScanner) scan(b []byte) (int, *frameError) {
	for i := 0; i < len(b); {
		if s.have == frameHeaderBytes {
			n := min(s.rest, len(b)-i)
			i += n
			s.rest -= n
			s.endFrame()
			continue
		}
		had := s.have
		n := copy(s.header[had:], b[i:])
		s.have += n
		if had < 4 && s.have >= 4 {
			length := binary.BigEndian.Uint32(s.header[:])
			if length < frameHeaderBytes || length > maxFrameBytes {
				// Not even the length is handed on whole.
				return i + max(0, 3-had), &frameError{length: length}
			}
			s.rest = int(length) - frameHeaderBytes
		}
		i += n
		if s.have == frameHeaderBytes {
			s.openReply = binary.BigEndian.Uint32(s.header[4:]) == programRemote &&
				binary.BigEndian.Uint32(s.header[12:]) == procConnectOpen &&
				binary.BigEndian.Uint32(s.header[16:]) == typeReply
			s.endFrame()
		}
	}
	return len(b), nil
}

func (s *frameScanner) endFrame() {
	if s.rest > 0 {
		return
	}
	s.have = 0
	s.sawOpenReply = s.sawOpenReply || s.openReply
	s.openReply = false
}
