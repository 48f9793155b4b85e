//go:build faults

package faults_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
)

// TestFaultsMaxStartups: a server that takes one login at a time.
func TestFaultsMaxStartups(t *testing.T) {
	hosts := labHosts(t)
	h1 := hosts["h1"]
	h1.restartSSHD("-o", "MaxStartups=1")
	t.Cleanup(func() { h1.restartSSHD() })

	t.Run("a crowd of our own", func(t *testing.T) {
		x := newTarget(t, h1, quick, false)
		row := begin(t, "MaxStartups 1, 20 logins at once", x, hosts["h2"])
		row.succeed(20, func() error {
			return x.link.Fresh(t.Context(), func(ctx context.Context, be libvirtx.Backend) error {
				_, err := be.ConnectGetLibVersion(ctx)
				return err
			})
		})
		row.end()
	})
	t.Run("taken", func(t *testing.T) {
		fault{
			name: "MaxStartups 1, taken by a stranger", proxied: true,
			inject: func(x *target) {
				stranger, err := new(net.Dialer).DialContext(x.Context(), "tcp", x.addr)
				if err != nil {
					x.Fatal(err)
				}
				// It has its place once it is greeted.
				if _, err := stranger.Read(make([]byte, 1)); err != nil {
					x.Fatal(err)
				}
				x.stranger = stranger
				x.proxy.cut()
			},
			repair: func(x *target) { _ = x.stranger.Close() },
			first:  reasons(unreachable), then: reasons(unreachable), within: soonAfter, healed: healSoon,
		}.try(t, hosts)
	})
}

// succeed makes calls side by side, all of which are to succeed.
func (o *observation) succeed(calls int, call func() error) {
	o.t.Helper()
	var work sync.WaitGroup
	errs := make([]error, calls)
	began := time.Now()
	for i := range errs {
		work.Go(func() { errs[i] = call() })
	}
	work.Wait()
	o.healed = max(o.healed, time.Since(began))
	for _, err := range errs {
		if err != nil {
			o.reason = string(libvirtx.Classify(err))
			o.kind = string(instance.Reason(o.reason).Kind())
			o.t.Errorf("got %v, want success", err)
			return
		}
	}
}

// TestFaultsReconnects loses the connections many times.
func TestFaultsReconnects(t *testing.T) {
	const times = 50
	hosts := labHosts(t)
	x := newTarget(t, hosts["h1"], quick, true)
	row := begin(t, fmt.Sprintf("%d reconnects, longest shown", times), x, hosts["h2"])
	for range times {
		x.proxy.cut()
		// A call that overtakes the end of its session learns of it, and no other.
		row.heal(atOnce)
	}
	row.end()
}

// TestFaultsCallerLeaves: a caller's own limit is nobody else's.
func TestFaultsCallerLeaves(t *testing.T) {
	hosts := labHosts(t)
	x := newTarget(t, hosts["h1"], quick, false)
	row := begin(t, "libvirtd frozen, a caller leaves", x, hosts["h2"])
	x.signal("STOP", "libvirtd")
	row.ask(fault{within: time.Second}, reasons(timeout), func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		return read(ctx, x)
	})
	x.signal("CONT", "libvirtd")
	row.heal(atOnce)
	row.end()
}
