//go:build lab

package diagnose_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience bounds every wait: a probe comes each second, a dial has ten.
const patience = time.Minute

// bench is a daemon over a lab host, and what is needed to break both.
type bench struct {
	*testing.T
	dir, api, admin string
	// key and knownHosts are copies of the lab's, for the daemon alone.
	key, knownHosts string
	env             map[string]string
}

// at is the bench for a test of its own.
func (b *bench) at(t *testing.T) *bench {
	t.Helper()
	here := *b
	here.T = t
	return &here
}

// newBench builds kvm2d and starts it over the lab's first host, with both of its pools.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, dir: t.TempDir(), env: map[string]string{}}
	for line := range strings.Lines(string(b.command("../lab/lab", "env"))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		b.env[name] = value
	}
	b.key, b.knownHosts = filepath.Join(b.dir, "id_ed25519"), filepath.Join(b.dir, "known_hosts")
	b.copyFile(b.env["KVM2D_LAB_KEY"], b.key)
	b.copyFile(b.env["KVM2D_LAB_KNOWN_HOSTS"], b.knownHosts)
	b.command("go", "build", "-o", filepath.Join(b.dir, "kvm2d"), "../../cmd/kvm2d")
	b.start()
	return b
}

// config has the host twice: once with its own pool, once with the small one,
// which can be filled in a moment.
func (b *bench) config() string {
	host := func(name, pool string) string {
		return fmt.Sprintf("    - {name: %s, uri: %q, sshKeyFile: %q, knownHostsFile: %q, bridge: br0, pool: %s, domainType: %s}\n",
			name, b.env["KVM2D_LAB_H1_URI"], b.key, b.knownHosts, pool, b.env["KVM2D_LAB_DOMAIN_TYPE"])
	}
	return "probeInterval: 1s\nkvm2:\n  hosts:\n" + host("h1", "default") + host("full", "small") +
		"  images:\n    tiny: {url: \"" + b.env["KVM2D_LAB_IMAGES_URL"] + "/tiny.qcow2\"}\n" +
		"  sizes: {tiny: {vcpus: 1, memoryMiB: 128, diskGiB: 0}}\n" +
		"  placements:\n    h1: {host: h1, image: tiny, size: tiny}\n    full: {host: full, image: tiny, size: tiny}\n"
}

func (b *bench) start() {
	b.Helper()
	file := filepath.Join(b.dir, "kvm2d.yaml")
	if err := os.WriteFile(file, []byte(b.config()), 0o600); err != nil {
		b.Fatal(err)
	}
	log, err := os.Create(b.logFile())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	// Not under the test's context: it is ended as a supervisor would.
	daemon := exec.Command(filepath.Join(b.dir, "kvm2d"), "serve", "--config", file, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	daemon.Stdout, daemon.Stderr = log, log
	if err := daemon.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = daemon.Process.Signal(os.Interrupt)
		if err := daemon.Wait(); err != nil {
			b.Errorf("kvm2d ended with %v", err)
		}
		if b.Failed() {
			b.Logf("log of kvm2d:\n%s", b.log())
		}
	})
	b.until("kvm2d serves", func() error {
		for _, line := range b.lines() {
			if line["msg"] == "serving" {
				b.api, b.admin = fmt.Sprintf("http://%v", line["listen"]), fmt.Sprintf("http://%v", line["admin_listen"])
				return nil
			}
		}
		return errors.New("no such line in the log")
	})
}

func (b *bench) logFile() string { return filepath.Join(b.dir, "log") }

func (b *bench) log() string {
	text, err := os.ReadFile(b.logFile())
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

// lines are the log's, parsed.
func (b *bench) lines() []map[string]any {
	b.Helper()
	var lines []map[string]any
	for text := range strings.Lines(b.log()) {
		var line map[string]any
		if json.Unmarshal([]byte(text), &line) == nil {
			lines = append(lines, line)
		}
	}
	return lines
}

// command runs a program to its end, during clean-ups too.
func (b *bench) command(name string, args ...string) []byte {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second // a daemon that it leaves behind may hold the pipes open
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		b.Fatalf("%s %q: %v\n%s", name, args, err, stderr.String())
	}
	return stdout.Bytes()
}

// sh runs a shell command as root on a lab host.
func (b *bench) sh(host, script string) {
	b.Helper()
	b.command("../lab/lab", "exec", host, "sh", "-ec", script)
}

// hangUp ends every SSH connection to a lab host, so that the next call dials.
func (b *bench) hangUp(host string) {
	b.Helper()
	b.sh(host, "pkill -KILL -f '^sshd: kvm2d' || true")
}

// newHostKey starts the host's SSH server with a key that nobody knows.
func (b *bench) newHostKey(host string) {
	b.Helper()
	key := filepath.Join(b.dir, "ssh_host_new")
	b.command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	b.restartSSHD(host, "-o", "HostKeyAlgorithms=ssh-ed25519", "-h", key)
}

func (b *bench) oldHostKey(host string) {
	b.Helper()
	b.restartSSHD(host)
}

func (b *bench) restartSSHD(host string, args ...string) {
	b.Helper()
	b.sh(host, "pkill -KILL '^sshd' || true")
	b.until("sshd starts", func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), 10*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, "../faults/sshd", append([]string{host}, args...)...)
		cmd.WaitDelay = time.Second
		if out, err := cmd.CombinedOutput(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

func (b *bench) rename(from, to string) {
	b.Helper()
	if err := os.Rename(from, to); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) copyFile(from, to string) {
	b.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		b.Fatal(err)
	}
}

// until repeats check until it succeeds, and fails the test with its last error.
func (b *bench) until(what string, check func() error) {
	b.Helper()
	end := time.NewTimer(patience)
	defer end.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-end.C:
			b.Fatalf("%s: not within %v: %v", what, patience, err)
		case <-tick.C:
		}
	}
}

// fetch makes a request and returns status, header and body.
func (b *bench) fetch(method, url, body string) (int, http.Header, []byte) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	return res.StatusCode, res.Header, text
}
