package libvirtx

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// realSSHD is an OpenSSH server of the test's own, with three kinds of host key.
type realSSHD struct {
	addr    string
	user    string
	hosts   map[string]string // kind → public key line
	allowed string            // its authorized_keys
	cmd     *exec.Cmd
}

// startSSHD runs the system's sshd on a loopback port with more configuration.
func startSSHD(t *testing.T, more ...string) *realSSHD {
	t.Helper()
	const sshd = "/usr/sbin/sshd"
	if _, err := os.Stat(sshd); err != nil {
		t.Skip("no sshd here")
	}
	if os.Geteuid() == 0 {
		// What the system's own unit makes before it starts one.
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Skip(err)
		}
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &realSSHD{user: me.Username, hosts: map[string]string{}, allowed: filepath.Join(dir, "authorized_keys")}
	ln := listen(t, "tcp", "127.0.0.1:0")
	s.addr = ln.Addr().String()
	_ = ln.Close()
	_, port, _ := net.SplitHostPort(s.addr)
	config := []string{
		"ListenAddress 127.0.0.1", "Port " + port, "PidFile none", "UsePAM no", "StrictModes no", "LogLevel ERROR",
		"PermitRootLogin prohibit-password", "PasswordAuthentication no", "AuthorizedKeysFile " + s.allowed,
	}
	_, edKey, _ := ed25519.GenerateKey(rand.Reader)
	ecKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rsaKey, _ := rsa.GenerateKey(rand.Reader, 2048)
	for kind, key := range map[string]any{"ed25519": &edKey, "ecdsa": ecKey, "rsa": rsaKey} {
		config = append(config, "HostKey "+writePEM(t, key))
		s.hosts[kind] = fmt.Sprintf("[127.0.0.1]:%s %s", port, authorized(publicOf(t, key)))
	}
	file := writeFile(t, "sshd_config", strings.Join(append(config, more...), "\n")+"\n")
	var said bytes.Buffer
	s.cmd = exec.CommandContext(t.Context(), sshd, "-D", "-e", "-f", file)
	s.cmd.Stderr = &said
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		_ = s.cmd.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	eventually(t, "sshd listens", func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return s
}

// options log in with a new key that the server lets in.
func (s *realSSHD) options(t *testing.T, f *fakeLibvirtd, hostKinds ...string) SSHOptions {
	t.Helper()
	o := SSHOptions{SSHEndpoint: SSHEndpoint{Addr: s.addr, User: s.user, KeyFile: writeKey(t)}, Socket: f.socket}
	s.allow(t, o.KeyFile)
	var lines []string
	for _, kind := range hostKinds {
		lines = append(lines, s.hosts[kind])
	}
	o.KnownHostsFile = writeFile(t, "known_hosts", strings.Join(lines, "\n")+"\n")
	return o
}

func (s *realSSHD) allow(t *testing.T, keyFile string) {
	t.Helper()
	pem, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.allowed, ssh.MarshalAuthorizedKey(signer.PublicKey()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestSSHD_oneKnownKindOfThree(t *testing.T) {
	s, f := startSSHD(t), serveLibvirt(t, &fakeLibvirtd{})
	for kind := range s.hosts {
		t.Run(kind, func(t *testing.T) { mustServe(t, s.options(t, f, kind)) })
	}
}

func TestSSHD_rsaKeyAgainstSHA2Only(t *testing.T) {
	s, f := startSSHD(t, "PubkeyAcceptedAlgorithms rsa-sha2-512,rsa-sha2-256", "HostKeyAlgorithms rsa-sha2-512"), serveLibvirt(t, &fakeLibvirtd{})
	o := s.options(t, f, "rsa")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	o.KeyFile = writePEM(t, key)
	s.allow(t, o.KeyFile)
	mustServe(t, o)
}

func TestSSHD_causesAreClassified(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{})
	s := startSSHD(t, "MaxAuthTries 1")
	o := s.options(t, f, "ed25519")
	absent := o
	absent.Socket = f.socket + "-absent"
	mustFail(t, absent, instance.ReasonLibvirtUnavailable, "AllowStreamLocalForwarding")
	wrong := o
	wrong.KeyFile = writeKey(t)
	mustFail(t, wrong, instance.ReasonAuthenticationFailed)
	nobody := o
	nobody.User = "no-such-user"
	mustFail(t, nobody, instance.ReasonAuthenticationFailed)
	changed := o
	changed.KnownHostsFile = writeFile(t, "known_hosts", strings.Replace(s.hosts["ed25519"],
		strings.Fields(s.hosts["ed25519"])[2], strings.Fields(authorized(newSigner(t).PublicKey()))[1], 1))
	mustFail(t, changed, instance.ReasonHostKeyRejected)
	mustServe(t, o)

	closed := startSSHD(t, "AllowStreamLocalForwarding no")
	mustFail(t, closed.options(t, f, "ed25519"), instance.ReasonLibvirtUnavailable, "AllowStreamLocalForwarding")
}

// TestSSHD_noKindInCommon: the server has keys, none of the kind we know.
func TestSSHD_noKindInCommon(t *testing.T) {
	s, f := startSSHD(t, "HostKeyAlgorithms rsa-sha2-512"), serveLibvirt(t, &fakeLibvirtd{})
	mustFail(t, s.options(t, f, "ed25519"), instance.ReasonHostKeyRejected, "other kinds")
}

// TestSSHD_maxStartupsOne: a server that drops whoever comes while another
// logs in serves us all the same, because we come one at a time.
func TestSSHD_maxStartupsOne(t *testing.T) {
	s, f := startSSHD(t, "MaxStartups 1:100:1"), serveLibvirt(t, &fakeLibvirtd{})
	c, err := NewSSHConnector(s.options(t, f, "ed25519"))
	if err != nil {
		t.Fatal(err)
	}
	l := newTestLink(t, LinkOptions{Connector: c})
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if err := l.Fresh(t.Context(), func(ctx context.Context, b Backend) error {
				_, err := b.ConnectGetHostname(ctx)
				return err
			}); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			if _, err := l.Backend().ConnectGetHostname(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestSSHD_stopped: SIGSTOP is how a host looks that hangs.
func TestSSHD_stopped(t *testing.T) {
	s, f := startSSHD(t), serveLibvirt(t, &fakeLibvirtd{})
	c, err := NewSSHConnector(s.options(t, f, "ed25519"))
	if err != nil {
		t.Fatal(err)
	}
	l := newTestLink(t, LinkOptions{Connector: c, Limits: Limits{Dial: 500 * time.Millisecond}})
	if err := syscall.Kill(s.cmd.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_, err = l.Backend().ConnectGetHostname(t.Context())
	wantTimeout(t, err)
	if err := syscall.Kill(s.cmd.Process.Pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it answers again", func() bool {
		_, err := l.Backend().ConnectGetHostname(t.Context())
		return err == nil
	})
}
