//go:build lab

package imagefaults_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	// stallLimit and transferLimit are the daemons' limits in the fault rounds.
	stallLimit    = 2 * time.Second
	transferLimit = 15 * time.Second
)

// rig is what every test needs: the lab and a mirror.
type rig struct {
	env    map[string]string
	state  string // the lab's folder
	mirror *mirror
}

func newRig(t *testing.T) *rig {
	t.Helper()
	env := labEnv(t)
	return &rig{env: env, state: env["KVM2D_LAB"], mirror: newMirror(t)}
}

// place is a pool of a lab host, which the daemon knows as a host of its own.
type place struct{ name, host, pool string }

// source is where the daemon finds an image.
type source struct{ name, url, sha256, format string }

// config is a daemon's configuration with these places and images, and with a
// placement of each image on each place, named <place>-<image>.
func (r *rig) config(timeouts string, places []place, images []source) string {
	var b strings.Builder
	fmt.Fprintf(&b, "timeouts: %s\nkvm2:\n  hosts:\n", timeouts)
	for _, p := range places {
		fmt.Fprintf(&b, "    - {name: %s, uri: %q, pool: %s, sshKeyFile: %q, knownHostsFile: %q, bridge: br0, domainType: %s}\n",
			p.name, r.env["KVM2D_LAB_"+strings.ToUpper(p.host)+"_URI"], p.pool,
			r.env["KVM2D_LAB_KEY"], r.env["KVM2D_LAB_KNOWN_HOSTS"], r.env["KVM2D_LAB_DOMAIN_TYPE"])
	}
	b.WriteString("  images:\n")
	for _, i := range images {
		fmt.Fprintf(&b, "    %s: {url: %q, sha256: %q, firmware: bios", i.name, i.url, i.sha256)
		if i.format != "" {
			fmt.Fprintf(&b, ", format: %s", i.format)
		}
		b.WriteString("}\n")
	}
	b.WriteString("  sizes:\n    small: {vcpus: 1, memoryMiB: 256}\n  placements:\n")
	for _, p := range places {
		for _, i := range images {
			fmt.Fprintf(&b, "    %s-%s: {host: %s, image: %s, size: small}\n", p.name, i.name, p.name, i.name)
		}
	}
	return b.String()
}
