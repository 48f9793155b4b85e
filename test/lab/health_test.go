//go:build lab

package lab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestHealth_realCauses gives a daemon hosts that are not as they should be, each
// for a cause of its own, and wants the reason that the contract has for it (H2).
// Those that a running host can come to are test/diagnose's.
func TestHealth_realCauses(t *testing.T) {
	env, err := labEnv(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	strange := filepath.Join(t.TempDir(), "id")
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", strange).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	key, h1, h2 := env["KVM2D_LAB_KEY"], env["KVM2D_LAB_H1_URI"], env["KVM2D_LAB_H2_URI"]
	// The second name of a host, which the configuration cannot know for the same.
	address := strings.TrimSuffix(strings.TrimPrefix(h2, "qemu+ssh://kvm2d@"), "/system")
	other := relay(t, address)
	silent := "qemu+ssh://kvm2d@" + blackHole(t) + "/system"
	hosts := []struct{ name, uri, key, more, want string }{
		{"no-pool", h1, key, "bridge: br0, pool: nowhere", "PoolNotFound"},
		{"no-bridge", h1, key, "bridge: br77, pool: small", "Misconfigured"},
		{"no-firmware", h1, key, "bridge: br0", "FirmwareMissing"},
		{"no-key", h1, strange + ".absent", "bridge: br0, pool: a", "CredentialsUnavailable"},
		{"key-refused", h1, strange, "bridge: br0, pool: b", "AuthenticationFailed"},
		{"no-socket", h1, key, "bridge: br0, socket: /run/nothing, pool: c", "LibvirtUnavailable"},
		{"black-hole", silent, key, "bridge: br0", "Timeout"},
		{"refused", "qemu+ssh://kvm2d@127.0.0.1:1/system", key, "bridge: br0", "Unreachable"},
		{"maintained", h2, key, "bridge: br0, maintenance: true, pool: small", "Maintenance"},
		{"twin-a", h2, key, "bridge: br0", "Misconfigured"},
		{"twin-b", "qemu+ssh://kvm2d@" + other + "/system", key, "bridge: br0", "Misconfigured"},
	}
	vouched := alsoKnownAs(t, env["KVM2D_LAB_KNOWN_HOSTS"], address, other)
	var config strings.Builder
	config.WriteString("timeouts: {dial: 3s}\nkvm2:\n  hosts:\n")
	for _, h := range hosts {
		fmt.Fprintf(&config, "    - {name: %s, uri: %q, sshKeyFile: %s, knownHostsFile: %s, domainType: %s, %s}\n",
			h.name, h.uri, h.key, vouched, env["KVM2D_LAB_DOMAIN_TYPE"], h.more)
	}
	fmt.Fprintf(&config, "  images: {tiny: {url: %s/tiny.qcow2}}\n  sizes: {tiny: {vcpus: 1, memoryMiB: 256}}\n  placements: {p: {host: twin-a, image: tiny, size: tiny}}\n",
		env["KVM2D_LAB_IMAGES_URL"])
	hideFirmware(t, "h1")
	// One that refuses its configuration never serves.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	d, err := startDaemon(ctx, kvm2d.binary, t.TempDir(), config.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.stop(); err != nil {
			t.Errorf("stop: %v\n%s", err, d.log())
		}
	})

	var got struct {
		Status string
		Hosts  []struct{ Host, Reason, Message string }
	}
	answer := d.call(t, http.MethodGet, "/health", nil)
	if err := json.Unmarshal(answer.body, &got); err != nil || answer.status != http.StatusServiceUnavailable || got.Status != "down" || len(got.Hosts) != len(hosts) {
		t.Fatalf("got %d %s, want 503, down, and %d hosts", answer.status, answer.body, len(hosts))
	}
	for i, want := range hosts {
		if h := got.Hosts[i]; h.Host != want.name || h.Reason != want.want || (h.Message == "" && want.want != "Maintenance") {
			t.Errorf("got %+v, want %s for %s, in words", h, want.want, want.name)
		}
	}
}

// alsoKnownAs is a known_hosts that vouches for the host with that address as
// other, too.
func alsoKnownAs(t *testing.T, knownHosts, address, other string) string {
	t.Helper()
	content, err := os.ReadFile(knownHosts)
	if err != nil {
		t.Fatal(err)
	}
	entry := func(at string) string {
		host, port, _ := net.SplitHostPort(at) // the lab and the relay make no other
		return "[" + host + "]:" + port
	}
	more := content
	for line := range strings.Lines(string(content)) {
		if keys, ok := strings.CutPrefix(line, entry(address)+" "); ok {
			more = append(more, entry(other)+" "+keys...)
		}
	}
	path := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(path, more, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// relay is an address whose connections go to target.
func relay(t *testing.T, target string) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		work.Wait()
	})
	work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { carry(conn, target) })
		}
	})
	return l.Addr().String()
}

// carry joins conn to target until either end leaves.
func carry(conn net.Conn, target string) {
	defer func() { _ = conn.Close() }()
	up, err := net.DialTimeout("tcp", target, 10*time.Second)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(conn, up)
		_ = conn.Close()
	})
	_, _ = io.Copy(up, conn)
	_ = up.Close()
	back.Wait()
}

// blackHole is the address of something that accepts connections and says nothing.
func blackHole(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// hideFirmware takes OVMF's descriptions from a host until the end of the test.
func hideFirmware(t *testing.T, host string) {
	t.Helper()
	const folder = "/usr/share/qemu/firmware"
	onHost(t, host, "mount", "-t", "tmpfs", "none", folder)
	t.Cleanup(func() { onHost(t, host, "umount", folder) })
}
