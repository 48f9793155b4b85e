package libvirtx

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
)

// The frame of libvirt's RPC: length (itself included), program, version,
// procedure, type, serial, status; big endian. A body follows.
const (
	frameHeaderBytes = 28
	// maxFrameBytes is libvirt's limit for a message, header included.
	maxFrameBytes = 32<<20 + frameHeaderBytes
	// keptFrameBytes is the largest buffer that is kept for the next frame.
	keptFrameBytes = 1 << 20
	// maxEarlyBytes bounds what of a connection's streams may come before the
	// answers to the calls that opened them.
	maxEarlyBytes = 4 << 20

	programRemote   = 0x20008086
	procConnectOpen = 1
	procVolUpload   = 208
	procVolDownload = 209

	typeCall   = 0
	typeReply  = 1
	typeStream = 3

	statusOK    = 0
	statusError = 1
)

// frameHeader is a header as it came, without its length.
type frameHeader struct {
	program, proc, kind, serial, status uint32
}

func parseHeader(b []byte) (length uint32, h frameHeader) {
	at := func(i int) uint32 { return binary.BigEndian.Uint32(b[i:]) }
	return at(0), frameHeader{program: at(4), proc: at(12), kind: at(16), serial: at(20), status: at(24)}
}

// isStream: data may follow the answer to such a call, until its end.
func isStream(proc uint32) bool { return proc == procVolUpload || proc == procVolDownload }

// callBook knows the calls that wait for an answer. The library sends on an
// unbuffered channel under its only lock: one answer more than was asked for,
// and it is locked up for good. The zero value is ready; it is safe for
// concurrent use.
type callBook struct {
	mu   sync.Mutex
	open map[uint32]openCall
}

// openCall is a call that was sent.
type openCall struct {
	proc uint32
	// streaming: it was answered, and its stream goes on.
	streaming bool
}

// called notes a call before it goes out.
func (c *callBook) called(serial, proc uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[uint32]openCall{}
	}
	c.open[serial] = openCall{proc: proc}
}

// awaited reports whether a call waits for this frame, and closes the call if
// it is the last one. bodyBytes is the length of its body.
func (c *callBook) awaited(h frameHeader, bodyBytes int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	call, ok := c.open[h.serial]
	if !ok || h.program != programRemote || h.proc != call.proc {
		return false
	}
	switch {
	case h.kind == typeReply && !call.streaming:
		if isStream(h.proc) && h.status == statusOK {
			c.open[h.serial] = openCall{proc: h.proc, streaming: true}
		} else {
			delete(c.open, h.serial)
		}
		return true
	case h.kind == typeStream && call.streaming:
		// The library takes an empty body for the end too.
		if h.status == statusOK || h.status == statusError || bodyBytes == 0 {
			delete(c.open, h.serial)
		}
		return true
	default:
		return false
	}
}

// known reports whether a frame belongs to a call that is open.
func (c *callBook) known(h frameHeader) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	call, ok := c.open[h.serial]
	return ok && h.program == programRemote && h.proc == call.proc
}

// early reports whether a frame is data of a stream whose call is not answered
// yet: libvirtd sends both from different threads, and data may come first.
func (c *callBook) early(h frameHeader) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	call, ok := c.open[h.serial]
	return ok && h.program == programRemote && h.proc == call.proc && h.kind == typeStream && isStream(h.proc) && !call.streaming
}

// frameReader reads whole frames and passes over those that nobody waits for:
// an event that was not asked for, a second answer.
type frameReader struct {
	src   *bufio.Reader
	calls *callBook
	// frame is the last one, header included; the next overwrites it.
	frame bytes.Buffer
	// early are frames that came before the answer to their call, by its serial;
	// due are those whose turn is next. The library takes the first frame of a
	// call for its answer, and would lose what it holds.
	early      map[uint32][][]byte
	earlyBytes int
	due        [][]byte
	// sawOpenReply: the answer that ends the library's opening was handed on.
	sawOpenReply bool
}

func newFrameReader(conn net.Conn, calls *callBook) *frameReader {
	return &frameReader{src: bufio.NewReader(conn), calls: calls}
}

// next returns a frame, valid until the next call. It fails with a *frameError
// at one that no libvirtd sends, or with what the connection fails with.
func (r *frameReader) next() ([]byte, error) {
	for {
		if len(r.due) > 0 {
			frame := r.due[0]
			r.due = r.due[1:]
			r.earlyBytes -= len(frame)
			if _, h := parseHeader(frame); r.calls.awaited(h, len(frame)-frameHeaderBytes) {
				return frame, nil
			}
			continue
		}
		h, whole, err := r.read()
		if err != nil {
			return nil, err
		}
		if !whole {
			continue
		}
		frame := r.frame.Bytes()
		switch {
		case r.calls.awaited(h, len(frame)-frameHeaderBytes):
			r.due = r.early[h.serial]
			delete(r.early, h.serial)
			if h.proc == procConnectOpen {
				r.sawOpenReply = true
			}
			return frame, nil
		case r.calls.early(h):
			if r.earlyBytes += len(frame); r.earlyBytes > maxEarlyBytes {
				return nil, &frameError{problem: fmt.Sprintf("more than %d bytes of streams that are not open", maxEarlyBytes)}
			}
			if r.early == nil {
				r.early = map[uint32][][]byte{}
			}
			r.early[h.serial] = append(r.early[h.serial], bytes.Clone(frame))
		}
	}
}

// read reads a frame into r.frame. The body of one that nobody waited for when
// it began is passed over, and whole is false.
func (r *frameReader) read() (h frameHeader, whole bool, err error) {
	if r.frame.Cap() > keptFrameBytes {
		r.frame = bytes.Buffer{}
	}
	r.frame.Reset()
	if _, err := io.CopyN(&r.frame, r.src, frameHeaderBytes); err != nil {
		return h, false, err
	}
	length, h := parseHeader(r.frame.Bytes())
	if length < frameHeaderBytes || length > maxFrameBytes {
		return h, false, &frameError{problem: fmt.Sprintf("a frame of %d bytes", length)}
	}
	rest := int64(length) - frameHeaderBytes
	if !r.calls.known(h) {
		_, err := io.CopyN(io.Discard, r.src, rest)
		return h, false, err
	}
	// The buffer grows with what comes, not with what is claimed.
	if _, err := io.CopyN(&r.frame, r.src, rest); err != nil {
		return h, false, err
	}
	if !answerFits(h, r.frame.Bytes()[frameHeaderBytes:]) {
		return h, false, &frameError{problem: fmt.Sprintf("an answer to procedure %d that ends before what it announces", h.proc)}
	}
	return h, true, nil
}

// frameWriter follows the frames that the library sends, in whatever pieces.
type frameWriter struct {
	calls  *callBook
	header [frameHeaderBytes]byte
	// have is how much of header is filled, rest how much of the frame follows it.
	have int
	rest int
}

// note looks at what is about to be sent.
func (w *frameWriter) note(b []byte) {
	for len(b) > 0 {
		if w.rest > 0 {
			n := min(w.rest, len(b))
			w.rest -= n
			b = b[n:]
			continue
		}
		n := copy(w.header[w.have:], b)
		w.have += n
		b = b[n:]
		if w.have < frameHeaderBytes {
			return
		}
		length, h := parseHeader(w.header[:])
		w.have, w.rest = 0, int(length)-frameHeaderBytes
		if h.kind == typeCall {
			w.calls.called(h.serial, h.proc)
		}
	}
}
