package libvirtx

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// writeKey writes a new private key file and returns its path.
func writeKey(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, key)
}

func writePEM(t *testing.T, key any) string {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(key, "test")
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "key", string(pem.EncodeToMemory(block)))
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// knownHosts writes a file that vouches for the server's keys.
func knownHosts(t *testing.T, s *sshServer) string {
	t.Helper()
	var lines strings.Builder
	for _, key := range s.hostKeys {
		fmt.Fprintln(&lines, knownhosts.Line([]string{s.addr}, key.PublicKey()))
	}
	return writeFile(t, "known_hosts", lines.String())
}

// optionsFor are whole options for a server and a libvirtd behind it.
func optionsFor(t *testing.T, s *sshServer, f *fakeLibvirtd) SSHOptions {
	t.Helper()
	o := SSHOptions{SSHEndpoint: SSHEndpoint{
		Addr: s.addr, User: "kvm2d", KeyFile: writeKey(t), KnownHostsFile: knownHosts(t, s),
	}}
	if f != nil {
		o.Socket = f.socket
	}
	return o
}

func connect(ctx context.Context, t *testing.T, o SSHOptions) (Conn, error) {
	t.Helper()
	c, err := NewSSHConnector(o)
	if err != nil {
		t.Fatal(err)
	}
	return c.Connect(ctx)
}

// mustServe connects and makes a call.
func mustServe(t *testing.T, o SSHOptions) {
	t.Helper()
	conn, err := connect(t.Context(), t, o)
	if err != nil {
		t.Fatal(err)
	}
	if name, err := conn.ConnectGetHostname(t.Context()); err != nil || name != "fake" {
		t.Errorf("hostname: got %q, %v; want fake", name, err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// mustFail connects and wants a failure of that reason, whose text has all of parts.
func mustFail(t *testing.T, o SSHOptions, want instance.Reason, parts ...string) {
	t.Helper()
	_ = failure(t, o, want, parts...)
}

// failure is mustFail for who looks at the error.
func failure(t *testing.T, o SSHOptions, want instance.Reason, parts ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := connect(ctx, t, o)
	if err == nil {
		_ = conn.Close()
		t.Fatal("it connected")
	}
	if got := Classify(err); got != want {
		t.Errorf("got %s (%v), want %s", got, err, want)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %q, want %q in it", err, part)
		}
	}
	return err
}

func TestNewSSHConnector_namesWhatIsMissing(t *testing.T) {
	_, err := NewSSHConnector(SSHOptions{Jump: &SSHEndpoint{}})
	for _, want := range []string{"ssh: Addr", "ssh: User", "ssh: KeyFile", "ssh: KnownHostsFile", "jump host: User"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestDial_forwardsUnixSocket(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{})
	s := serveSSH(t, &sshServer{})
	conn, err := connect(t.Context(), t, optionsFor(t, s, f))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got, err := conn.ConnectGetLibVersion(t.Context()); err != nil || got != 9000000 {
			t.Errorf("got %d, %v; want 9000000", got, err)
		}
	}
	if got := s.open.Load(); got != 1 {
		t.Errorf("%d SSH connections, want 1", got)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-conn.Done():
	default:
		t.Error("Done is open after Close")
	}
	eventually(t, "the server's side is closed", func() bool { return s.open.Load() == 0 })
	if _, err := conn.ConnectGetLibVersion(t.Context()); !errors.Is(err, errNotSent) {
		t.Errorf("a call after Close: got %v, want never sent", err)
	}
}

func TestDial_unknownHostKeyRejected(t *testing.T) {
	s := serveSSH(t, &sshServer{})
	o := optionsFor(t, s, nil)
	o.KnownHostsFile = writeFile(t, "known_hosts", knownhosts.Line([]string{"other.example.net"}, s.hostKeys[0].PublicKey())+"\nnot a line\n")
	mustFail(t, o, instance.ReasonHostKeyRejected, o.KnownHostsFile, s.addr, "SHA256:", "cannot be read: 2")
}

func TestDial_mismatchedHostKeyRejected(t *testing.T) {
	s := serveSSH(t, &sshServer{})
	o := optionsFor(t, s, nil)
	o.KnownHostsFile = writeFile(t, "known_hosts", knownhosts.Line([]string{s.addr}, newSigner(t).PublicKey()))
	mustFail(t, o, instance.ReasonHostKeyRejected, "another key", "line 1")
}

func TestDial_insecureIgnoreHostKeyAccepts(t *testing.T) {
	o := optionsFor(t, serveSSH(t, &sshServer{}), serveLibvirt(t, &fakeLibvirtd{}))
	o.KnownHostsFile, o.InsecureIgnoreHostKey = "", true
	mustServe(t, o)
}

func TestDial_missingKeyFileIsTransient(t *testing.T) {
	whole := optionsFor(t, serveSSH(t, &sshServer{}), serveLibvirt(t, &fakeLibvirtd{}))
	for name, row := range map[string]struct {
		file *string
		put  func(*SSHOptions, string)
	}{
		"key":         {&whole.KeyFile, func(o *SSHOptions, f string) { o.KeyFile = f }},
		"known_hosts": {&whole.KnownHostsFile, func(o *SSHOptions, f string) { o.KnownHostsFile = f }},
		"agent":       {nil, func(o *SSHOptions, f string) { o.AgentSocket = f }},
	} {
		t.Run(name, func(t *testing.T) {
			o := whole
			missing := filepath.Join(t.TempDir(), "later")
			row.put(&o, missing)
			err := failure(t, o, instance.ReasonCredentialsUnavailable, missing)
			if kind := Classify(err).Kind(); kind != instance.Transient {
				t.Errorf("got %s, want Transient", kind)
			}
			if row.file == nil {
				return
			}
			// The Secret arrives: no restart is needed.
			content, err := os.ReadFile(*row.file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(missing, content, 0o600); err != nil {
				t.Fatal(err)
			}
			mustServe(t, o)
		})
	}
}

func TestDial_unparsableKeyIsPermanent(t *testing.T) {
	o := optionsFor(t, serveSSH(t, &sshServer{}), nil)
	for name, content := range map[string]string{
		"empty": "", "text": "hello", "half": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----\n",
		"public": string(ssh.MarshalAuthorizedKey(newSigner(t).PublicKey())),
	} {
		t.Run(name, func(t *testing.T) {
			o.KeyFile = writeFile(t, "key", content)
			err := failure(t, o, instance.ReasonAuthenticationFailed, o.KeyFile)
			if kind := Classify(err).Kind(); kind != instance.Permanent {
				t.Errorf("got %s, want Permanent", kind)
			}
		})
	}
}

// TestDial_handshakeTimeout ends in each step in which a peer can fall silent.
func TestDial_handshakeTimeout(t *testing.T) {
	for name, mute := range map[string]func(*sshServer, *fakeLibvirtd){
		"in the SSH handshake": func(s *sshServer, _ *fakeLibvirtd) { s.mute.Store(true) },
		"in the channel open":  func(s *sshServer, _ *fakeLibvirtd) { s.hangChannels.Store(true) },
		"in libvirt's open":    func(_ *sshServer, f *fakeLibvirtd) { f.mute.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			s, f := serveSSH(t, &sshServer{}), serveLibvirt(t, &fakeLibvirtd{})
			mute(s, f)
			c, err := NewSSHConnector(optionsFor(t, s, f))
			if err != nil {
				t.Fatal(err)
			}
			l := newTestLink(t, LinkOptions{Connector: c, Limits: Limits{Dial: 200 * time.Millisecond}})
			began := time.Now()
			_, err = l.Backend().ConnectGetHostname(t.Context())
			wantTimeout(t, err)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %s, want the limit and little more", took)
			}
			if got := Classify(err); got != instance.ReasonTimeout {
				t.Errorf("got %s, want Timeout", got)
			}
			eventually(t, "the server's side is closed", func() bool { return s.open.Load() == 0 })
		})
	}
}

func TestDial_callerWhoLeavesIsAnsweredAtOnce(t *testing.T) {
	s := serveSSH(t, &sshServer{})
	s.mute.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := connect(ctx, t, optionsFor(t, s, nil)); Classify(err) != instance.ReasonCancelled {
		t.Errorf("got %v, want a cancellation", err)
	}
}

func TestDial_nobodyListens(t *testing.T) {
	ln := listen(t, "tcp", "127.0.0.1:0")
	s := &sshServer{addr: ln.Addr().String(), hostKeys: []ssh.Signer{newSigner(t)}}
	_ = ln.Close()
	mustFail(t, optionsFor(t, s, nil), instance.ReasonUnreachable, s.addr)
}

func TestDial_comesAgainWhenHungUpOnUnheard(t *testing.T) {
	s := serveSSH(t, &sshServer{})
	o := optionsFor(t, s, serveLibvirt(t, &fakeLibvirtd{}))
	s.hangUps.Store(dropTries - 1)
	mustServe(t, o)
	s.hangUps.Store(dropTries)
	mustFail(t, o, instance.ReasonUnreachable)
	if got := s.hangUps.Load(); got != 0 {
		t.Errorf("%d tries were left, want all made", got)
	}
}

func TestDial_socketRefusedListsCauses(t *testing.T) {
	s := serveSSH(t, &sshServer{})
	o := optionsFor(t, s, nil)
	o.Socket = filepath.Join(t.TempDir(), "absent")
	mustFail(t, o, instance.ReasonLibvirtUnavailable, o.Socket, "does not run", "group libvirt", "AllowStreamLocalForwarding")
	o.Socket = ""
	s.refuseChannels.Store(true)
	mustFail(t, o, instance.ReasonLibvirtUnavailable, "libvirt-sock or /var/run/libvirt/virtqemud-sock")
}

func TestDial_secondSocketIsTried(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{})
	c, err := NewSSHConnector(optionsFor(t, serveSSH(t, &sshServer{}), nil))
	if err != nil {
		t.Fatal(err)
	}
	c.sockets = []string{filepath.Join(t.TempDir(), "absent"), f.socket}
	conn, err := c.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

// TestDial_garbageCostsOneConnection: what a netcat says in libvirt's place
// must not take the process with it.
func TestDial_garbageCostsOneConnection(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{greeting: []byte("nc: unix connect failed: Permission denied\n")})
	mustFail(t, optionsFor(t, serveSSH(t, &sshServer{}), f), instance.ReasonLibvirtUnavailable, "does not speak libvirt's protocol")
	c := NewLocalConnector(LocalOptions{Socket: f.socket})
	if _, err := c.Connect(t.Context()); Classify(err) != instance.ReasonLibvirtUnavailable {
		t.Errorf("local: got %v, want LibvirtUnavailable", err)
	}
}

func TestDial_libvirtRefusesTheOpening(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{})
	f.openError.Store(88)
	began := time.Now()
	mustFail(t, optionsFor(t, serveSSH(t, &sshServer{}), f), instance.ReasonAuthenticationFailed)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("answered after %v: the library waited for its own reader", took)
	}
}

// TestDial_lostRightAfterOpening is for the race detector: the library writes
// a field when it is done opening that its reader reads when the connection is lost.
func TestDial_lostRightAfterOpening(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{})
	f.dropAfterOpen.Store(true)
	c := NewLocalConnector(LocalOptions{Socket: f.socket})
	for range 200 {
		conn, err := c.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		<-conn.Done()
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDial_localSocket(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{})
	conn, err := NewLocalConnector(LocalOptions{Socket: f.socket}).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if name, err := conn.ConnectGetHostname(t.Context()); err != nil || name != "fake" {
		t.Errorf("got %q, %v; want fake", name, err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	f.mute.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := NewLocalConnector(LocalOptions{Socket: f.socket}).Connect(ctx); Classify(err) != instance.ReasonTimeout {
		t.Errorf("mute: got %v, want a timeout", err)
	}
	absent := NewLocalConnector(LocalOptions{Socket: f.socket + "-absent"})
	if _, err := absent.Connect(t.Context()); Classify(err) != instance.ReasonLibvirtUnavailable {
		t.Errorf("absent: got %v, want LibvirtUnavailable", err)
	}
}
