//go:build lab

// Package diagnose_test breaks a real host and holds that all that an operator
// looks at names the cause. Run it with test/diagnose/run, which makes the hosts.
package diagnose_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// fault is one way to break a host, and what must be said of it.
type fault struct {
	name string
	// host is whom a create is asked for.
	host string
	// inflict breaks it; mend undoes that.
	inflict, mend func(*bench)
	// health is the reason of the host's entry, and entry a word of it besides.
	health, entry string
	// metric is the beginning of a series that must be there, and below what its value must be under.
	metric string
	below  float64
	// status, kind, reason and detail are the problem's.
	status             int
	kind, reason, text string
}

// faults are the five, each mended before the next.
var faults = []fault{
	{
		name: "pool stopped", host: "h1",
		inflict: func(b *bench) { b.sh("h1", "virsh pool-destroy default") },
		mend:    func(b *bench) { b.sh("h1", "virsh pool-start default") },
		health:  "PoolNotActive", entry: "default",
		metric: `kvm2d_host_ready{host="h1",reason="PoolNotActive"}`, below: 1,
		status: 503, kind: "Transient", reason: "PoolNotActive", text: "default",
	},
	{
		name: "key removed", host: "h1",
		inflict: func(b *bench) { b.rename(b.key, b.key+".away"); b.hangUp("h1") },
		mend:    func(b *bench) { b.rename(b.key+".away", b.key) },
		health:  "CredentialsUnavailable", entry: "id_ed25519: no such file",
		metric: `kvm2d_host_ready{host="h1",reason="CredentialsUnavailable"}`, below: 1,
		status: 503, kind: "Transient", reason: "CredentialsUnavailable", text: "id_ed25519: no such file",
	},
	{
		name: "host key changed", host: "h1",
		inflict: func(b *bench) { b.newHostKey("h1") },
		mend:    func(b *bench) { b.oldHostKey("h1") },
		health:  "HostKeyRejected", entry: "host key",
		metric: `kvm2d_host_ready{host="h1",reason="HostKeyRejected"}`, below: 1,
		status: 422, kind: "Permanent", reason: "HostKeyRejected", text: "host key",
	},
	{
		name: "libvirtd killed", host: "h1",
		inflict: func(b *bench) { b.sh("h1", "kill -KILL $(pgrep '^libvirtd')") },
		mend:    func(b *bench) { b.sh("h1", "libvirtd --daemon") },
		health:  "LibvirtUnavailable", entry: "libvirt",
		metric: `kvm2d_host_ready{host="h1",reason="LibvirtUnavailable"}`, below: 1,
		status: 503, kind: "Transient", reason: "LibvirtUnavailable", text: "socket",
	},
	{
		name: "disk full", host: "full",
		inflict: func(b *bench) {
			b.sh("h1", "dd if=/dev/zero of=/var/lib/libvirt/small/filler bs=1M count=60 status=none")
		},
		mend: func(b *bench) { b.sh("h1", "rm /var/lib/libvirt/small/filler") },
		// A host whose disk is full is as ready as ever for what runs on it.
		health: "Ready", entry: "pool small is nearly full",
		metric: `kvm2d_pool_available_bytes{host="full",pool="small"}`, below: 16 << 20,
		status: 507, kind: "QuotaExceeded", reason: "PoolFull", text: "pool small",
	},
}

func TestDiagnose(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	for n, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			b := b.at(t)
			b.until("host "+f.host+" is ready", func() error { return b.healthIs(f.host, "Ready", "") })
			f.inflict(b)
			t.Cleanup(func() { f.mend(b.at(t)) })

			b.until("health names the cause", func() error { return b.healthIs(f.host, f.health, f.entry) })
			b.until("the metrics name the cause", func() error { return b.metricIs(f.metric, f.below) })
			name := fmt.Sprintf("diagnose-%d", n)
			problem := b.create(f.host, name)
			b.checkProblem(f, problem)
			b.checkLog(f, name, problem)
			if f.health != "Ready" {
				b.until("the log tells of the host", func() error { return b.changeLogged(f.host, f.health) })
			}
			if !strings.Contains(string(page), "`"+f.reason+"` ⚡") {
				t.Errorf("the troubleshooting page does not have %s among the five", f.reason)
			}
		})
	}
}
