//go:build integration

package integration_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
)

// TestTwoDaemons lets two kvm2d processes create and delete one instance on one
// libvirtd at once, and kills them in the middle: round after round it must end
// with one VM or none, and with nothing after a last Delete. It prints which
// steps were hit, and each must have been.
func TestTwoDaemons(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("KVM2_TEST_ROUNDS"))
	if err != nil {
		t.Skip("KVM2_TEST_ROUNDS is not set: run make test-two-daemons")
	}
	seed, err := strconv.ParseUint(os.Getenv("KVM2_TEST_SEED"), 10, 64)
	if err != nil {
		seed = 1
	}
	s := readSettings(t)
	sweepWalked(t, s)
	r := startRace(t, s, seed)
	began := time.Now()
	for n := range rounds {
		if r.round(t); t.Failed() {
			t.Errorf("in round %d of seed %d", n+1, seed)
			break
		}
	}
	table, missed := r.report()
	t.Logf("%d rounds in %s, seed %d; per step how often a daemon was killed in it, and met a change of the other's:\n%s",
		rounds, time.Since(began).Round(time.Second), seed, table)
	if missed != nil {
		t.Errorf("not hit: %s", strings.Join(missed, ", "))
	}
}

// race is two daemons on one libvirtd.
type race struct {
	settings
	*tally
	daemons [2]*killable
}

// startRace starts both. Each logs in on the host as ever, and finds there, in
// libvirt's place, the socket of a proxy that reads its calls.
func startRace(t *testing.T, s settings, seed uint64) *race {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "kvm2d")
	build := exec.CommandContext(t.Context(), "go", "build", "-race", "-o", binary, "../../cmd/kvm2d")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build kvm2d: %v\n%s", err, out)
	}
	r := &race{settings: s, tally: newTally(seed)}
	upstream := filepath.Join(dir, "libvirt.sock")
	var proxies [2]string
	for i := range proxies {
		proxies[i] = filepath.Join(dir, fmt.Sprintf("%d.sock", i))
		startProxy(t, proxies[i], upstream, &side{tally: r.tally, number: i, doomed: map[rpcCall]moment{}})
	}
	sockets := s.forward(t, upstream, proxies)
	for i, socket := range sockets {
		d := &killable{binary: binary, config: filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), logFile: filepath.Join(dir, fmt.Sprintf("%d.log", i)), listen: freeAddress(t)}
		if err := os.WriteFile(d.config, []byte(s.raceConfig(socket)), 0o600); err != nil {
			t.Fatal(err)
		}
		r.daemons[i], r.kill[i] = d, d.kill
		t.Cleanup(func() {
			d.kill()
			if t.Failed() {
				t.Logf("the last lines of daemon %d:\n%s", i, d.lastLines(300))
			}
		})
		d.start(t)
	}
	return r
}

// forward brings libvirt's socket here, to upstream, and puts a socket on the
// host for each proxy here. It returns the paths of those.
func (s settings) forward(t *testing.T, upstream string, proxies [2]string) (sockets [2]string) {
	t.Helper()
	remote := s.socket
	if remote == "" {
		remote = "/var/run/libvirt/libvirt-sock"
	}
	args := []string{"-N", "-o", "ExitOnForwardFailure=yes", "-L", upstream + ":" + remote}
	for i, proxy := range proxies {
		sockets[i] = fmt.Sprintf("/tmp/kvm2d-race-%s.sock", rand.Text())
		args = append(args, "-R", sockets[i]+":"+proxy)
	}
	ssh := s.ssh(t, args...)
	if err := ssh.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ssh.Process.Kill()
		_ = ssh.Wait()
		// The SSH server leaves them behind.
		if out, err := s.ssh(t, "rm", "-f", sockets[0], sockets[1]).CombinedOutput(); err != nil {
			t.Errorf("remove the sockets on the host: %v\n%s", err, out)
		}
	})
	poll(t, 20*time.Second, 50*time.Millisecond, func() error {
		_, err := os.Stat(upstream)
		return err
	})
	return sockets
}

// ssh is a run of the ssh client; options come before the host, words of a
// command after it.
func (s settings) ssh(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	all := []string{
		"-F", "none", "-p", port, "-i", s.key, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
		"-o", "UserKnownHostsFile=" + s.knownHosts, s.user + "@" + host,
	}
	// ssh takes options after the host too, up to the first word that is none.
	return exec.CommandContext(context.WithoutCancel(t.Context()), "ssh", append(all, args...)...)
}

// raceConfig is the configuration of a daemon that finds libvirt at that socket
// of the host.
func (s settings) raceConfig(socket string) string {
	uri := url.URL{Scheme: "qemu+ssh", User: url.User(s.user), Host: s.address, Path: "/system"}
	return fmt.Sprintf(`probeInterval: 1h
kvm2:
  owner: %s
  hosts:
    - {name: %s, uri: %q, sshKeyFile: %q, knownHostsFile: %q, socket: %q, bridge: %q, pool: %q, domainType: %q}
  images: {%s: {url: %q, firmware: bios%s}}
  sizes: {small: {vcpus: 1, memoryMiB: 128}}
  placements: {%s: {host: %s, image: %s, size: small}}
`, testOwner, hostName, uri.String(), s.key, s.knownHosts, socket, s.bridge, s.pool, s.domainType, testImage, s.imageURL, s.digest(), hostName, hostName, testImage)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// round sends each daemon a few requests at random times, lets them die on the
// way, and settles what is left.
func (r *race) round(t *testing.T) {
	t.Helper()
	var work sync.WaitGroup
	for i, d := range r.daemons {
		if r.upTo(4) > 0 {
			r.takeAim(i)
		}
		for n := range 4 {
			// The first is a create as a rule: what is not there cannot be raced for.
			create, begin := r.upTo(4) > n, time.Duration(n*200+r.upTo(300))*time.Millisecond
			work.Go(func() {
				<-time.After(begin)
				if err := d.request(t.Context(), create); err != nil {
					t.Errorf("daemon %d, create %v: %v", i, create, err)
				}
			})
		}
	}
	work.Wait()
	r.holdFire()
	for _, d := range r.daemons {
		d.start(t)
	}
	last := r.daemons[r.upTo(2)]
	poll(t, time.Minute, 200*time.Millisecond, func() error { return last.insist(t.Context(), true) })
	r.wantOneVM(t)
	last = r.daemons[r.upTo(2)]
	poll(t, time.Minute, 200*time.Millisecond, func() error { return last.insist(t.Context(), false) })
	wantNone(t, r.settings)
}

// wantOneVM is wantOne, but that a guest which was left running may have lost
// its seed, which it has read, and its console's log to a delete that raced.
func (r *race) wantOneVM(t *testing.T) {
	t.Helper()
	err := onDomain(t.Context(), t, r.settings, func(conn libvirtx.Conn, dom libvirt.Domain) error {
		wantWhole(t, conn, dom)
		prefix := fmt.Sprintf("kvm2.%s.%s.%x.", testOwner, walked, dom.UUID[:4])
		volumes := r.holds(t).instances
		if !slices.Contains(volumes, prefix+"root.qcow2") ||
			slices.ContainsFunc(volumes, func(name string) bool { return !strings.HasPrefix(name, prefix) }) {
			t.Errorf("got volumes %v, want %sroot.qcow2 and no other machine's", volumes, prefix)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// killable is a daemon that may be killed at any time, and started again.
type killable struct {
	binary, config, logFile, listen string

	mu      sync.Mutex
	process *exec.Cmd
	// deaths counts how often it was killed.
	deaths int
}

// start starts it unless it runs, and waits until it serves.
func (d *killable) start(t *testing.T) {
	t.Helper()
	if err := d.launch(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	poll(t, 20*time.Second, 20*time.Millisecond, func() error {
		_, err := d.call(t.Context(), http.MethodGet, "/version", "")
		return err
	})
}

func (d *killable) launch(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process != nil {
		return nil
	}
	log, err := os.OpenFile(d.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	d.process = exec.CommandContext(ctx, d.binary, "serve", "--config", d.config, "--log-level", "detail",
		"--listen", d.listen, "--admin-listen", "127.0.0.1:0")
	d.process.Stdout, d.process.Stderr = log, log
	return d.process.Start()
}

// kill ends it as nothing can be caught, and returns when it is gone.
func (d *killable) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process == nil {
		return
	}
	_ = d.process.Process.Kill()
	_ = d.process.Wait()
	d.process = nil
	d.deaths++
}

func (d *killable) died() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.deaths
}

func (d *killable) lastLines(n int) string {
	text, _ := os.ReadFile(d.logFile)
	lines := strings.SplitAfter(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "")
}

// request creates or deletes the instance once. Success, a Transient problem,
// and no answer from a daemon that was killed are fine.
func (d *killable) request(ctx context.Context, create bool) error {
	deaths := d.died()
	err := d.insist(ctx, create)
	var answer *problemError
	switch {
	case err == nil, errors.As(err, &answer) && answer.Kind == "Transient":
		return nil
	case answer == nil && d.died() > deaths:
		return d.launch(context.WithoutCancel(ctx))
	case answer == nil && deaths > 0:
		// Another request met its death, and it is not back yet.
		return d.launch(context.WithoutCancel(ctx))
	}
	return err
}

// insist creates or deletes the instance and returns what is no success.
func (d *killable) insist(ctx context.Context, create bool) error {
	method, path, body := http.MethodDelete, "/instances/"+walkedID.String()+"?uid=walker", ""
	if create {
		method, path = http.MethodPost, "/instances"
		body = fmt.Sprintf(`{"name": %q, "uid": "walker", "placement": %q, "cloudInit": "#!/bin/sh\n"}`, walked, hostName)
	}
	_, err := d.call(ctx, method, path, body)
	return err
}

// problemError is an answer that is a problem.
type problemError struct {
	Kind, Reason, Detail string
	Status               int
}

func (e *problemError) Error() string {
	return fmt.Sprintf("%d %s %s: %s", e.Status, e.Kind, e.Reason, e.Detail)
}

// call sends one request. Its error is a *problemError when an answer came.
func (d *killable) call(ctx context.Context, method, path, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+d.listen+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Prefer", "wait=60")
	}
	// A connection that is kept may be one to a daemon that has died.
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode < http.StatusMultipleChoices {
		return text, err
	}
	problem := &problemError{}
	if err := json.Unmarshal(text, problem); err != nil {
		return nil, fmt.Errorf("status %d: %w", res.StatusCode, err)
	}
	return nil, problem
}
