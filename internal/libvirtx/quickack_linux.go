//go:build linux

package libvirtx

import (
	"net"

	"golang.org/x/sys/unix"
)

// quickACK acknowledges at once what it reads. sshd leaves Nagle's algorithm
// on for forwarded sockets, and waits for our acknowledgement in the middle of
// an answer; a delayed one costs 40 ms. The kernel forgets the option, so it
// is set again after each Read.
type quickACK struct {
	*net.TCPConn
}

func newQuickACK(conn net.Conn) net.Conn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn
	}
	return quickACK{tcp}
}

// Read is the TCP connection's. That the option cannot be set costs time only.
func (c quickACK) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if raw, rawErr := c.SyscallConn(); rawErr == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
		})
	}
	return n, err
}
