//go:build integration

package integration_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// The frame of libvirt's RPC: length (itself included), program, version,
// procedure, type, serial, status; big endian.
const (
	headerBytes   = 28
	maxFrame      = 32 << 20
	remoteProgram = 0x20008086
	typeCall      = 0
	typeReply     = 1
)

// watcher is told of every call that passes a proxy, and may end the caller.
type watcher interface {
	// called comes before a call is passed on; false keeps it back.
	called(c rpcCall) bool
	// sent comes after it was passed on.
	sent(c rpcCall)
	// answered comes before its answer is passed back.
	answered(c rpcCall)
	// gone comes when the caller's connection has ended, with what was open on it.
	gone(open []rpcCall)
}

// rpcCall is one call on one connection.
type rpcCall struct {
	conn      int
	serial    uint32
	procedure uint32
}

// rpcProxy stands between one daemon and libvirtd and reads the frames.
type rpcProxy struct {
	upstream string
	watcher  watcher
	listener net.Listener
	work     sync.WaitGroup

	mu    sync.Mutex
	conns int
	open  map[net.Conn]struct{}
}

// startProxy listens on a socket of its own; what comes goes to the socket upstream.
func startProxy(t *testing.T, path, upstream string, w watcher) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	p := &rpcProxy{upstream: upstream, watcher: w, listener: l, open: map[net.Conn]struct{}{}}
	p.work.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for conn := range p.open {
			_ = conn.Close()
		}
		p.mu.Unlock()
		p.work.Wait()
	})
}

func (p *rpcProxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.conns++
		number := p.conns
		p.open[conn] = struct{}{}
		p.mu.Unlock()
		p.work.Go(func() { p.serve(conn, number) })
	}
}

// serve carries one connection until either end leaves.
func (p *rpcProxy) serve(conn net.Conn, number int) {
	defer func() {
		_ = conn.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, conn)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	up, err := new(net.Dialer).DialContext(ctx, "unix", p.upstream)
	if err != nil {
		return
	}
	c := &carried{watcher: p.watcher, number: number, open: map[uint32]rpcCall{}}
	var both sync.WaitGroup
	both.Go(func() {
		c.carry(up, conn, c.toLibvirt)
		_ = up.Close()
	})
	both.Go(func() {
		c.carry(conn, up, c.toDaemon)
		_ = conn.Close()
	})
	both.Wait()
	c.watcher.gone(c.left())
}

// carried is one connection's calls that have no answer yet.
type carried struct {
	watcher watcher
	number  int
	mu      sync.Mutex
	open    map[uint32]rpcCall
}

func (c *carried) left() []rpcCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	var left []rpcCall
	for _, call := range c.open {
		left = append(left, call)
	}
	return left
}

// carry passes frames on, each by pass.
func (c *carried) carry(dst io.Writer, src io.Reader, pass func(io.Writer, []byte) error) {
	for {
		frame, err := readFrame(src)
		if err == nil {
			err = pass(dst, frame)
		}
		if err != nil {
			return
		}
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n < headerBytes || n > maxFrame {
		return nil, errors.New("not a frame")
	}
	frame := make([]byte, n)
	copy(frame, length[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// kind returns what a frame is, when it is one of libvirt's own calls or answers.
func (c *carried) kind(frame []byte) (kind uint32, call rpcCall, ok bool) {
	word := func(i int) uint32 { return binary.BigEndian.Uint32(frame[4*i:]) }
	return word(4), rpcCall{conn: c.number, procedure: word(3), serial: word(5)}, word(1) == remoteProgram
}

func (c *carried) toLibvirt(dst io.Writer, frame []byte) error {
	kind, call, ok := c.kind(frame)
	if !ok || kind != typeCall {
		_, err := dst.Write(frame)
		return err
	}
	c.mu.Lock()
	c.open[call.serial] = call
	c.mu.Unlock()
	if !c.watcher.called(call) {
		return errors.New("kept back")
	}
	if _, err := dst.Write(frame); err != nil {
		return err
	}
	c.watcher.sent(call)
	return nil
}

func (c *carried) toDaemon(dst io.Writer, frame []byte) error {
	if kind, call, ok := c.kind(frame); ok && kind == typeReply {
		c.mu.Lock()
		call, known := c.open[call.serial]
		delete(c.open, call.serial)
		c.mu.Unlock()
		if known {
			c.watcher.answered(call)
		}
	}
	_, err := dst.Write(frame)
	return err
}
