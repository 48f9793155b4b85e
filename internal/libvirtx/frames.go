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

// frameReader reads whole frames and passes over those that nobody waits for:
// an event that was not asked for, a second answer.
type frameReader struct {
	src   *bufio.Reader
	calls *callBook
	// frame is the last one, header included; the next overwrites it.
	frame bytes.Buffer
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
		if r.frame.Cap() > keptFrameBytes {
			r.frame = bytes.Buffer{}
		}
		r.frame.Reset()
		if _, err := io.CopyN(&r.frame, r.src, frameHeaderBytes); err != nil {
			return nil, err
		}
		length, h := parseHeader(r.frame.Bytes())
		if length < frameHeaderBytes || length > maxFrameBytes {
			return nil, &frameError{problem: fmt.Sprintf("a frame of %d bytes", length)}
		}
		rest := int64(length) - frameHeaderBytes
		if !r.calls.awaited(h, int(rest)) {
			if _, err := io.CopyN(io.Discard, r.src, rest); err != nil {
				return nil, err
			}
			continue
		}
		// The buffer grows with what comes, not with what is claimed.
		if _, err := io.CopyN(&r.frame, r.src, rest); err != nil {
			return nil, err
		}
		if !answerFits(h, r.frame.Bytes()[frameHeaderBytes:]) {
			return nil, &frameError{problem: fmt.Sprintf("an answer to procedure %d that ends before what it announces", h.proc)}
		}
		if h.proc == procConnectOpen {
			r.sawOpenReply = true
		}
		return r.frame.Bytes(), nil
	}
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
