package http

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// anonymousName is the caller in the log where nobody has to say who they are.
const anonymousName = "anonymous"

// Anonymous lets everybody do everything.
type Anonymous struct {
	// AnyHost switches off the check of the Host header. Without it a request
	// must be addressed to a loopback name: a web page that rebinds its own
	// name to 127.0.0.1 sends its own name.
	AnyHost bool
}

// Authenticate knows everybody.
func (a Anonymous) Authenticate(_ context.Context, c Credentials) (Principal, bool, error) {
	if !a.AnyHost && !isLoopback(hostOnly(c.Host)) {
		return Principal{}, false, instance.Errorf(instance.ReasonForbidden,
			"without authentication only requests to a loopback address are served")
	}
	return Principal{Name: anonymousName, Role: RoleFull}, true, nil
}

// CheckExposure refuses to serve without authentication on an address (host:port
// as given to listen) that others can reach, unless insecure says that this is wanted.
func CheckExposure(listen string, authenticated, insecure bool) error {
	if authenticated || insecure || isLoopback(hostOnly(listen)) {
		return nil
	}
	return fmt.Errorf("listen on %s without authentication: the address is not loopback; configure server.auth, or say --insecure-no-auth", listen)
}

func hostOnly(hostPort string) string {
	if host, _, err := net.SplitHostPort(hostPort); err == nil {
		return host
	}
	if n := len(hostPort); n > 1 && hostPort[0] == '[' && hostPort[n-1] == ']' {
		return hostPort[1 : n-1]
	}
	return hostPort
}

// isLoopback reports whether host is this machine only. Names other than
// localhost are not resolved: what they mean may change.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
