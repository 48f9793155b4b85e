//go:build integration

package integration_test

import (
	"context"
	"fmt"
	"io"
	"sync"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
)

// fault is what becomes of one call.
type fault int

const (
	// refused: libvirt answers with an error and does nothing.
	refused fault = iota
	// undelivered: the connection ends before the call is sent.
	undelivered
	// replyLost: the call takes effect and the connection ends before its answer.
	replyLost
)

func (f fault) String() string {
	return [...]string{"refused", "undelivered", "reply lost"}[f]
}

// plan spoils the n-th call, over all connections.
type plan struct {
	mu    sync.Mutex
	fault fault
	n     int
	calls int
	// struck is the method that was spoilt, "" before.
	struck string
}

// strike sets the plan up anew; n 0 spoils nothing.
func (p *plan) strike(f fault, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.n, p.calls, p.struck = f, n, 0, ""
}

// outcome returns how many calls came and which of them was spoilt.
func (p *plan) outcome() (calls int, struck string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls, p.struck
}

// meets counts a call and reports whether it is the one to spoil.
func (p *plan) meets(method string) (fault, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if p.calls != p.n {
		return 0, false
	}
	p.struck = method
	return p.fault, true
}

// faultyConnector puts a plan in the way of every call to a real host.
type faultyConnector struct {
	libvirtx.Connector
	plan *plan
}

// Connect is a call too: it can fail, and there is no reply to lose.
func (c faultyConnector) Connect(ctx context.Context) (libvirtx.Conn, error) {
	if f, hit := c.plan.meets("Connect"); hit && f != replyLost {
		return nil, fmt.Errorf("injected: %w", io.EOF)
	}
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &faultyConn{Conn: conn, plan: c.plan}, nil
}

// faultyConn is a real connection whose calls meet the plan.
type faultyConn struct {
	libvirtx.Conn
	plan *plan
}

func (c *faultyConn) do(method string, call func() error) error {
	f, hit := c.plan.meets(method)
	if !hit {
		return call()
	}
	switch f {
	case refused:
		return libvirt.Error{Code: uint32(libvirt.ErrSystemError), Message: "injected"}
	case replyLost:
		_ = call() // nobody hears what it says
	case undelivered:
	}
	_ = c.Close()
	return fmt.Errorf("injected: %w", io.EOF)
}

func ask[T any](c *faultyConn, method string, call func() (T, error)) (out T, err error) {
	err = c.do(method, func() (err error) {
		out, err = call()
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return out, nil
}
