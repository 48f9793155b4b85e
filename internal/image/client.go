package image

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	maxRedirects   = 5
	connectTimeout = 30 * time.Second
	maxHeaderBytes = 64 << 10
)

// Reasons for which a redirect is not followed. None shows the target, which
// may carry a signature in its query.
var (
	errTooManyRedirects = fmt.Errorf("more than %d redirects", maxRedirects)
	errDowngrade        = errors.New("redirect from https to http refused")
	errScheme           = errors.New("redirect to a scheme other than http and https refused")
	errLocalTarget      = errors.New("redirect to a loopback or link-local address refused")
)

// itinerary goes with one request through its redirects.
type itinerary struct {
	// noLocal forbids dialling loopback and link-local addresses from now on.
	noLocal atomic.Bool
}

type itineraryKey struct{}

// resolver looks addresses up; net.Resolver is one.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// newClient returns the client for downloads. Its redirects are bounded, never
// leave https for http, and reach loopback and link-local addresses only when
// the configured host is such itself: nobody's mirror gets to read our metadata
// service. A nil transport gets one of our own, which also checks what it dials.
func newClient(transport http.RoundTripper, dns resolver) *http.Client {
	if transport == nil {
		transport = newTransport()
	}
	return &http.Client{
		Transport: transport,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			return checkRedirect(req, via, dns)
		},
	}
}

// newTransport keeps no connection: downloads are few and long, and a kept one
// would be a goroutine without an owner.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: connectTimeout, ControlContext: refuseLocal}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    connectTimeout,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// checkRedirect decides on the next hop. The Referer that net/http has put on it
// goes: it would hand the first URL's query to another server.
func checkRedirect(req *http.Request, via []*http.Request, dns resolver) error {
	req.Header.Del("Referer")
	last, first := via[len(via)-1], via[0]
	switch {
	case len(via) > maxRedirects:
		return errTooManyRedirects
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return errScheme
	case last.URL.Scheme == "https" && req.URL.Scheme == "http":
		return errDowngrade
	case isLocal(req.Context(), first.URL, dns):
		return nil
	case isLocal(req.Context(), req.URL, dns):
		return errLocalTarget
	}
	// The name may resolve otherwise when it is dialled. Behind a proxy we dial
	// the proxy, wherever that is.
	if proxy, err := http.ProxyFromEnvironment(req); err == nil && proxy == nil {
		if it, ok := req.Context().Value(itineraryKey{}).(*itinerary); ok {
			it.noLocal.Store(true)
		}
	}
	return nil
}

// isLocal reports whether any address of the URL's host is loopback or
// link-local. A name that does not resolve is not: it cannot be dialled either.
func isLocal(ctx context.Context, u *url.URL, dns resolver) bool {
	host := u.Hostname()
	if addr, err := netip.ParseAddr(host); err == nil {
		return isLocalAddr(addr)
	}
	addrs, err := dns.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(addrs, isLocalAddr)
}

func isLocalAddr(addr netip.Addr) bool {
	addr = addr.Unmap()
	return addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsUnspecified()
}

// refuseLocal is the dialer's last look at an address, after the name was resolved.
func refuseLocal(ctx context.Context, _, address string, _ syscall.RawConn) error {
	it, ok := ctx.Value(itineraryKey{}).(*itinerary)
	if !ok || !it.noLocal.Load() {
		return nil
	}
	if ap, err := netip.ParseAddrPort(address); err == nil && isLocalAddr(ap.Addr()) {
		return errLocalTarget
	}
	return nil
}
