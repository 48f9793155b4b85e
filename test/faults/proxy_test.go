//go:build faults

package faults_test

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy forwards TCP connections to a host, until it is told to misbehave.
type proxy struct {
	target   string
	listener net.Listener
	// budget is how many bytes of the host a new connection forwards before it
	// goes silent; negative: all.
	budget atomic.Int64
	// refuses: new connections are reset at once.
	refuses atomic.Bool
	// carried counts the bytes of the host on all connections.
	carried atomic.Int64

	mu    sync.Mutex
	conns map[*proxied]bool
	work  sync.WaitGroup
}

// proxied is one connection through a proxy.
type proxied struct {
	client, host *net.TCPConn
	// budget is what is left of the proxy's.
	budget atomic.Int64
	closed chan struct{}
	once   sync.Once
}

const unlimited = int64(-1)

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{target: target, listener: l, conns: map[*proxied]bool{}}
	p.budget.Store(unlimited)
	p.work.Go(func() { p.accept(t.Context()) })
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		p.work.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) accept(ctx context.Context) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		host, err := new(net.Dialer).DialContext(ctx, "tcp", p.target)
		if err != nil || p.refuses.Load() {
			_ = client.Close()
			if host != nil {
				_ = host.Close()
			}
			continue
		}
		c := &proxied{client: client.(*net.TCPConn), host: host.(*net.TCPConn), closed: make(chan struct{})} //nolint:errcheck // of a TCP listener and dial
		c.budget.Store(p.budget.Load())
		p.mu.Lock()
		p.conns[c] = true
		p.mu.Unlock()
		p.work.Go(func() { p.forward(c, c.client, c.host, &c.budget) })
		p.work.Go(func() { p.forward(c, c.host, c.client, nil) })
	}
}

// forward copies until the connection ends. Once the budget is spent it neither
// writes nor reads, as if a cable had been pulled.
func (p *proxy) forward(c *proxied, to, from *net.TCPConn, spend *atomic.Int64) {
	defer p.drop(c)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		left := c.budget.Load()
		if left >= 0 {
			n = int(min(int64(n), left))
			if spend != nil {
				spend.Store(left - int64(n))
			}
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
		if spend != nil {
			p.carried.Add(int64(n))
		}
		if c.budget.Load() == 0 {
			<-c.closed
			return
		}
	}
}

// drop ends one connection with a reset.
func (p *proxy) drop(c *proxied) {
	c.once.Do(func() {
		close(c.closed)
		for _, conn := range []*net.TCPConn{c.client, c.host} {
			_ = conn.SetLinger(0)
			_ = conn.Close()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, c)
	})
}

// each calls do with every connection there is.
func (p *proxy) each(do func(*proxied)) {
	p.mu.Lock()
	conns := slices.Collect(maps.Keys(p.conns))
	p.mu.Unlock()
	for _, c := range conns {
		do(c)
	}
}

// cut resets all connections.
func (p *proxy) cut() { p.each(p.drop) }

// refuse has new connections reset at once, or no longer.
func (p *proxy) refuse(yes bool) { p.refuses.Store(yes) }

// silence stops all connections where they are, and new ones after that many
// bytes of the host.
func (p *proxy) silence(after int64) {
	p.budget.Store(after)
	p.each(func(c *proxied) { c.budget.Store(0) })
}

// restore forwards again; what was silent is reset.
func (p *proxy) restore() {
	p.budget.Store(unlimited)
	p.each(func(c *proxied) {
		if c.budget.Load() >= 0 {
			p.drop(c)
		}
	})
}
