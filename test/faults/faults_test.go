//go:build faults

package faults_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
)

// TestFaults breaks one thing after the other.
func TestFaults(t *testing.T) {
	hosts := labHosts(t)
	for _, f := range slices.Concat(libvirtFaults, sshdFaults, networkFaults, loginFaults) {
		t.Run(f.name, func(t *testing.T) { f.try(t, hosts) })
	}
}

// reasons makes the rows shorter.
func reasons(r ...instance.Reason) []instance.Reason { return r }

const (
	unreachable  = instance.ReasonUnreachable
	timeout      = instance.ReasonTimeout
	noLibvirt    = instance.ReasonLibvirtUnavailable
	atOnce       = 3 * time.Second
	soonAfter    = 4 * time.Second // a quick limit, and what the machine takes
	libvirtsSock = "/var/run/libvirt/libvirt-sock"
)

// startLibvirtd is as the lab starts it.
func startLibvirtd(x *target) {
	x.Helper()
	x.sh("libvirtd --daemon </dev/null >/dev/null 2>&1")
}

var libvirtFaults = []fault{
	{
		name:   "libvirtd killed",
		inject: func(x *target) { x.signal("KILL", "libvirtd") },
		repair: startLibvirtd,
		// A call that overtakes the end of the session learns only that it ended.
		first: reasons(noLibvirt, unreachable), then: reasons(noLibvirt), within: atOnce, healed: healSoon,
	},
	{
		name: "libvirtd killed during an upload", upload: true,
		inject: func(x *target) { x.signal("KILL", "libvirtd") },
		repair: startLibvirtd,
		first:  reasons(unreachable), then: reasons(noLibvirt), within: atOnce, healed: healSoon,
	},
	{
		name:   "libvirtd frozen",
		inject: func(x *target) { x.signal("STOP", "libvirtd") },
		repair: func(x *target) { x.signal("CONT", "libvirtd") },
		first:  reasons(timeout), then: reasons(timeout), within: soonAfter, healed: healSoon,
	},
	{
		name: "libvirtd's socket absent", proxied: true,
		inject: func(x *target) {
			x.sh("mv " + libvirtsSock + " " + libvirtsSock + ".away")
			x.proxy.cut()
		},
		repair: func(x *target) { x.sh("mv " + libvirtsSock + ".away " + libvirtsSock) },
		first:  reasons(noLibvirt, unreachable), then: reasons(noLibvirt), within: atOnce, healed: healSoon,
	},
	{
		name: "libvirtd takes no more clients", proxied: true,
		inject: func(x *target) {
			// Ours are cut off, then a stranger has the only place.
			y := newTarget(x.T, x.labHost, quick, false)
			if err := read(x.Context(), y); err != nil {
				x.Fatal(err)
			}
			x.stranger = y.link
			x.sh("virt-admin srv-clients-set libvirtd --max-clients 1 --max-unauth-clients 1")
			x.proxy.cut()
		},
		repair: func(x *target) {
			x.sh("virt-admin srv-clients-set libvirtd --max-clients 5000 --max-unauth-clients 20")
			_ = x.stranger.Close()
		},
		first: reasons(timeout, unreachable), then: reasons(timeout), within: soonAfter, healed: healSoon,
	},
}

var sshdFaults = []fault{
	{
		name:   "sshd killed",
		inject: func(x *target) { x.signal("KILL", "sshd") },
		repair: func(x *target) { x.startSSHD() },
		first:  reasons(unreachable), then: reasons(unreachable), within: atOnce, healed: healSoon,
	},
	{
		name: "sshd killed during an upload", upload: true,
		inject: func(x *target) { x.signal("KILL", "sshd") },
		repair: func(x *target) { x.startSSHD() },
		first:  reasons(unreachable), then: reasons(unreachable), within: atOnce, healed: healSoon,
	},
	{
		name:   "sshd frozen",
		inject: func(x *target) { x.signal("STOP", "sshd") },
		repair: func(x *target) { x.signal("CONT", "sshd") },
		first:  reasons(timeout), then: reasons(timeout), within: soonAfter, healed: healSoon,
	},
	{
		name: "sshd frozen, keepalive alone",
		// Nothing but the keepalive ends this call.
		limits: libvirtx.Limits{Dial: quick.Dial, Call: 10 * time.Minute},
		inject: func(x *target) { x.signal("STOP", "sshd") },
		repair: func(x *target) { x.signal("CONT", "sshd") },
		first:  reasons(unreachable), then: reasons(timeout),
		notBefore: 10 * time.Second, within: 45 * time.Second, healed: healSoon,
	},
}

// goSilent is a peer of which nothing is heard any more. A new connection falls
// silent when it has got so far on the way to an open libvirt.
func goSilent(percent int64) fault {
	return fault{
		name: fmt.Sprintf("silent, anew after %d%% of an opening", percent), proxied: true,
		inject: func(x *target) { x.proxy.silence(x.opening() * percent / 100) },
		repair: func(x *target) { x.proxy.restore() },
		first:  reasons(timeout), then: reasons(timeout), within: soonAfter, healed: healSoon,
	}
}

var networkFaults = []fault{
	goSilent(0),
	goSilent(20),
	goSilent(60),
	goSilent(99),
	{
		name: "silent during an upload", proxied: true, upload: true,
		inject: func(x *target) { x.proxy.silence(0) },
		repair: func(x *target) { x.proxy.restore() },
		first:  reasons(timeout), then: reasons(timeout), within: soonAfter, healed: healSoon,
	},
	{
		name: "connection reset during an upload", proxied: true, upload: true,
		inject: func(x *target) { x.proxy.refuse(true); x.proxy.cut() },
		repair: func(x *target) { x.proxy.refuse(false) },
		first:  reasons(unreachable), then: reasons(unreachable), within: soonAfter, healed: healSoon,
	},
}

var loginFaults = []fault{
	{
		name: "wrong key", proxied: true,
		inject: func(x *target) {
			x.keep(x.key)
			x.newKey(x.key)
			x.proxy.cut()
		},
		repair: func(x *target) { x.restore(x.key) },
		first:  reasons(instance.ReasonAuthenticationFailed, unreachable), then: reasons(instance.ReasonAuthenticationFailed),
		within: atOnce, healed: healSoon,
	},
	{
		name: "key file absent", proxied: true,
		inject: func(x *target) { x.keep(x.key); x.proxy.cut() },
		repair: func(x *target) { x.restore(x.key) },
		first:  reasons(instance.ReasonCredentialsUnavailable, unreachable), then: reasons(instance.ReasonCredentialsUnavailable),
		within: atOnce, healed: healSoon,
	},
	{
		name: "changed host key",
		inject: func(x *target) {
			x.newKey(x.newHostKey())
			// The lab's keys stand in its configuration file, so this one is another's.
			x.restartSSHD("-h", x.newHostKey(), "-o", "HostKeyAlgorithms=ssh-ed25519")
		},
		repair: func(x *target) {
			x.Cleanup(func() { x.restartSSHD() })
			x.trust(x.newHostKey() + ".pub")
		},
		first: reasons(instance.ReasonHostKeyRejected, unreachable), then: reasons(instance.ReasonHostKeyRejected),
		within: atOnce, healed: healSoon,
	},
}
