package sim

import (
	"context"
	"sync"
	"syscall"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
)

// conn is one connection to the host. Its Backend methods are beside what they
// act on: domaincalls.go, volumecalls.go, and so on.
type conn struct {
	host   *Host
	number int
	once   sync.Once
	done   chan struct{}
}

var _ libvirtx.Conn = (*conn)(nil)

// Close ends the connection and what is blocked on it.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.host.mu.Lock()
		delete(c.host.conns, c)
		c.host.mu.Unlock()
		close(c.done)
	})
	return nil
}

// Done is closed when the connection is.
func (c *conn) Done() <-chan struct{} { return c.done }

// alive fails as go-libvirt does on a connection that is gone.
func (c *conn) alive() error {
	select {
	case <-c.done:
		return syscall.EINVAL
	default:
		return nil
	}
}

// call passes the gate and then runs effect with the host locked.
func (c *conn) call(ctx context.Context, method, object string, effect func() error) error {
	v, err := c.host.enter(ctx, c, method, object)
	if err != nil {
		return err
	}
	c.host.mu.Lock()
	err = effect()
	c.host.mu.Unlock()
	return v.leave(err)
}
