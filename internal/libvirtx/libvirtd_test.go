package libvirtx

import (
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// The procedures that the fake libvirtd knows.
const (
	procHostname   = 59
	procAuthList   = 66
	procLibVersion = 157
)

// fakeLibvirtd speaks as much of libvirt's protocol as opening and two reads take.
type fakeLibvirtd struct {
	socket string
	// greeting is sent to whoever connects, before anything.
	greeting []byte
	// mute reads and never answers; muteAfterOpen from the first call on;
	// dropAfterOpen closes right behind the answer that ends the opening.
	mute, muteAfterOpen, dropAfterOpen atomic.Bool
	// openError is the number that the opening is refused with, callError every
	// call after it, uploadError an upload once its last byte has come.
	openError, callError, uploadError atomic.Uint32

	// spoil changes an answer on its way; nil leaves it.
	spoil func(proc uint32, answer []byte) []byte

	ln    net.Listener
	mu    sync.Mutex
	conns []net.Conn
	// procs are the procedures called, uploaded what came in streams.
	procs    []uint32
	uploaded []byte
	work     sync.WaitGroup
}

func serveLibvirt(t *testing.T, f *fakeLibvirtd) *fakeLibvirtd {
	t.Helper()
	f.socket = filepath.Join(t.TempDir(), "libvirt-sock")
	ln := listen(t, "unix", f.socket)
	f.ln = ln
	f.work.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns = append(f.conns, conn)
			f.mu.Unlock()
			f.work.Go(func() { f.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		f.drop()
		f.work.Wait()
	})
	return f
}

// drop ends every connection, as a restart does.
func (f *fakeLibvirtd) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.conns {
		_ = conn.Close()
	}
}

func (f *fakeLibvirtd) serve(conn net.Conn) {
	defer conn.Close()
	if _, err := conn.Write(f.greeting); err != nil {
		return
	}
	for {
		header := make([]byte, frameHeaderBytes)
		if _, err := io.ReadFull(conn, header); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(header)-frameHeaderBytes)
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		proc := binary.BigEndian.Uint32(header[12:])
		if f.note(header, proc, body) {
			continue
		}
		if f.mute.Load() || f.muteAfterOpen.Load() && proc != procAuthList && proc != procConnectOpen {
			continue
		}
		answer := f.answer(header, proc)
		if f.spoil != nil {
			answer = f.spoil(proc, answer)
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
		if proc == procConnectOpen && f.dropAfterOpen.Load() {
			return
		}
	}
}

// note keeps what came in, and reports whether it is the middle of a stream,
// which nobody answers, unlike its end and its sender's giving up.
func (f *fakeLibvirtd) note(header []byte, proc uint32, body []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if binary.BigEndian.Uint32(header[16:]) != typeStream {
		f.procs = append(f.procs, proc)
		return false
	}
	f.uploaded = append(f.uploaded, body...)
	const more = 2
	return binary.BigEndian.Uint32(header[24:]) == more
}

// refusal is an error of that number.
func refusal(code uint32) []byte {
	var body []byte
	// code, domain, message "no", level, and what the library leaves unread.
	for _, v := range []uint32{code, 0, 1, 2, 'n'<<24 | 'o'<<16, 2, 0, 0, 0, 0, 0, 0, 0} {
		body = binary.BigEndian.AppendUint32(body, v)
	}
	return body
}

func (f *fakeLibvirtd) answer(header []byte, proc uint32) []byte {
	var body []byte
	kind := uint32(typeReply)
	var code uint32
	switch proc {
	case procAuthList:
		body = binary.BigEndian.AppendUint32(body, 0)
	case procHostname:
		body = binary.BigEndian.AppendUint32(body, 4)
		body = append(body, "fake"...)
	case procLibVersion:
		body = binary.BigEndian.AppendUint64(body, 9000000)
	case procConnectOpen:
		code = f.openError.Load()
	case procVolUpload:
		if binary.BigEndian.Uint32(header[16:]) == typeStream {
			kind, code = typeStream, f.uploadError.Load()
		}
	}
	if proc != procAuthList && proc != procConnectOpen && f.callError.Load() != 0 {
		code = f.callError.Load()
	}
	var status uint32
	if code != 0 {
		status, body = 1, refusal(code)
	}
	out := binary.BigEndian.AppendUint32(nil, uint32(frameHeaderBytes+len(body)))
	out = append(out, header[4:16]...)
	out = binary.BigEndian.AppendUint32(out, kind)
	out = append(out, header[20:24]...)
	out = binary.BigEndian.AppendUint32(out, status)
	return append(out, body...)
}
