package main

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

func TestCheckHosts(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	refused := errors.New("connection refused")
	tests := []struct {
		name   string
		world  sim.Options
		down   error
		adjust func(*config.Host)
		want   []string
		code   int
	}{
		{name: "ready", want: []string{"a: ready (TIME)", "  hostname a, UUID UUID", "  libvirt 9.0.0"}},
		{name: "dead", down: refused, code: exitNotReady, want: []string{
			"a: not ready: LibvirtUnavailable: check host on a: connection refused",
			"  what to do: on the host: systemctl status libvirtd; id kvm2d (group libvirt); sshd -T | grep -i allowstreamlocalforwarding (must be yes)",
		}},
		{name: "no pool", adjust: func(h *config.Host) { h.Pool = "other" }, code: exitNotReady, want: []string{
			"a: not ready: PoolNotFound: check host on a: pool other: Storage pool not found: no storage pool with matching name 'other'",
			"  what to do: on the host: virsh pool-list --all; define the pool, or correct pool",
		}},
		{name: "no network", adjust: func(h *config.Host) { h.Network = "other" }, code: exitNotReady, want: []string{
			"a: not ready: Misconfigured: check host on a: network other: Network not found: no network with matching name 'other'",
			"  what to do: correct what the message names: a bridge, network or emulator that the host lacks or that is stopped, or one libvirt and pool configured under two names",
		}},
		{name: "old", world: sim.Options{LibVersion: 7_000_000}, code: exitNotReady, want: []string{
			"a: not ready: LibvirtTooOld: check host on a: libvirt 7.0.0, need 8.0.0 or later",
			"  what to do: upgrade the host: libvirt 8.0 or newer is needed",
		}},
		{name: "in maintenance", adjust: func(h *config.Host) { h.Maintenance = true }, code: exitNotReady, want: []string{
			"a: not ready: Maintenance: in maintenance: no new instances here",
			"  what to do: nothing is wrong: the configuration says maintenance: true",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.world.Name = "a"
			host := sim.NewHost(tt.world)
			host.Down(tt.down)
			cfg := config.Default()
			cfg.KVM2.Hosts = []config.Host{{Name: "a", URI: "qemu+ssh://kvm2d@a/system", Pool: "default", Network: "default", DomainType: "auto"}}
			if tt.adjust != nil {
				tt.adjust(&cfg.KVM2.Hosts[0])
			}
			world := backends{connector: func(config.Host) (libvirtx.Connector, error) { return host, nil }}
			var out bytes.Buffer
			err := checkHosts(t.Context(), &cfg, world, &out)
			got := exitOK
			if o, ok := errors.AsType[*outcome](err); ok {
				got = o.code
			}
			if got != tt.code {
				t.Errorf("exit code %d (%v), want %d", got, err, tt.code)
			}
			lines := strings.Split(steady(out.String()), "\n")
			if diff := cmp.Diff(tt.want, lines[:min(len(tt.want), len(lines))]); diff != "" {
				t.Errorf("output (-want +got):\n%s\nin full:\n%s", diff, out.String())
			}
			if n := host.OpenConns(); n != 0 {
				t.Errorf("%d connections are left open", n)
			}
		})
	}
}

var (
	timeRE = regexp.MustCompile(`\(\d+m?s\)`)
	uuidRE = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
)

// steady replaces what differs from run to run.
func steady(s string) string {
	return uuidRE.ReplaceAllString(timeRE.ReplaceAllString(s, "(TIME)"), "UUID")
}
