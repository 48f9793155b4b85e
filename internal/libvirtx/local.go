package libvirtx

import (
	"cmp"
	"context"
	"errors"
	"net"

	libvirt "github.com/digitalocean/go-libvirt"
)

// LocalOptions are what a LocalConnector is made of.
type LocalOptions struct {
	// Socket is libvirt's socket; "" tries the usual two.
	Socket string
	// DriverURI is what libvirt opens, "" for qemu:///system.
	DriverURI string
}

// LocalConnector connects to this machine's own libvirt, without SSH.
type LocalConnector struct {
	sockets []string
	uri     libvirt.ConnectURI
}

// NewLocalConnector does no I/O.
func NewLocalConnector(o LocalOptions) *LocalConnector {
	c := &LocalConnector{
		sockets: defaultSockets,
		uri:     libvirt.ConnectURI(cmp.Or(o.DriverURI, string(libvirt.QEMUSystem))),
	}
	if o.Socket != "" {
		c.sockets = []string{o.Socket}
	}
	return c
}

// Connect opens the first socket that there is, and libvirt's driver.
func (c *LocalConnector) Connect(ctx context.Context) (Conn, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, endedBy(ctx, "connect to the local libvirt", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	w, err := openWire(conn, conn.Close, c.uri)
	if err == nil && stop() {
		return w, nil
	}
	if w != nil {
		_ = w.Close()
	}
	return nil, endedBy(ctx, "open the local libvirt", err)
}

func (c *LocalConnector) dial(ctx context.Context) (net.Conn, error) {
	var all []error
	for _, path := range c.sockets {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err == nil {
			return conn, nil
		}
		all = append(all, err)
	}
	return nil, &socketError{paths: c.sockets, opener: "this machine", err: errors.Join(all...)}
}
