//go:build !linux

package libvirtx

import "net"

// newQuickACK does nothing where the kernel has no such option.
func newQuickACK(conn net.Conn) net.Conn { return conn }
