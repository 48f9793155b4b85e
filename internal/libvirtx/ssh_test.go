package libvirtx

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// only lets one key log in.
func only(want ssh.PublicKey) func(ssh.ConnMetadata, ssh.PublicKey) error {
	return func(_ ssh.ConnMetadata, got ssh.PublicKey) error {
		if !bytes.Equal(got.Marshal(), want.Marshal()) {
			return errors.New("another key")
		}
		return nil
	}
}

func publicOf(t *testing.T, key any) ssh.PublicKey {
	t.Helper()
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer.PublicKey()
}

// lock puts a passphrase on a key file. The library can do so too, but always
// with as many rounds as take seconds under the race detector.
func lock(t *testing.T, file, passphrase string) string {
	t.Helper()
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("no ssh-keygen here to lock a key with")
	}
	if out, err := exec.CommandContext(t.Context(), keygen, "-q", "-p", "-a", "1", "-P", "", "-N", passphrase, "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

func TestSSH_userKeys(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{})
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]any{"ed25519": &edKey, "ecdsa": ecKey, "rsa": rsaKey} {
		for _, passphrase := range []string{"", "correct horse"} {
			t.Run(name+passphrase, func(t *testing.T) {
				s := serveSSH(t, &sshServer{accept: only(publicOf(t, key))})
				o := optionsFor(t, s, f)
				o.KeyFile = writePEM(t, key)
				if passphrase != "" {
					lock(t, o.KeyFile, passphrase)
					o.PassphraseFile = writeFile(t, "passphrase", passphrase+"\n")
				}
				mustServe(t, o)
			})
		}
	}
}

func TestSSH_passphraseProblemsNameTheFile(t *testing.T) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	o := optionsFor(t, serveSSH(t, &sshServer{}), nil)
	o.KeyFile = lock(t, writePEM(t, key), "correct horse")
	mustFail(t, o, instance.ReasonAuthenticationFailed, o.KeyFile, "passphrase")
	o.PassphraseFile = writeFile(t, "passphrase", "battery staple")
	mustFail(t, o, instance.ReasonAuthenticationFailed, o.KeyFile, o.PassphraseFile)
	o.PassphraseFile += "-absent"
	mustFail(t, o, instance.ReasonCredentialsUnavailable, o.PassphraseFile)
}

// certify signs key as a certificate of the given type for the principal.
func certify(t *testing.T, authority ssh.Signer, key ssh.PublicKey, kind uint32, principal string) *ssh.Certificate {
	t.Helper()
	cert := &ssh.Certificate{
		Key: key, CertType: kind, ValidPrincipals: []string{principal},
		ValidBefore: ssh.CertTimeInfinity, KeyId: "test",
	}
	if err := cert.SignCert(rand.Reader, authority); err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestSSH_userCertificate(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{})
	authority := newSigner(t)
	checker := &ssh.CertChecker{IsUserAuthority: func(key ssh.PublicKey) bool {
		return bytes.Equal(key.Marshal(), authority.PublicKey().Marshal())
	}}
	s := serveSSH(t, &sshServer{accept: func(c ssh.ConnMetadata, key ssh.PublicKey) error {
		_, err := checker.Authenticate(c, key)
		return err
	}})
	o := optionsFor(t, s, f)
	mustFail(t, o, instance.ReasonAuthenticationFailed)
	pem, err := os.ReadFile(o.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		t.Fatal(err)
	}
	file := o.KeyFile + "-cert.pub"
	write := func(public ssh.PublicKey) {
		if err := os.WriteFile(file, ssh.MarshalAuthorizedKey(public), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(certify(t, authority, key.PublicKey(), ssh.UserCert, o.User))
	mustServe(t, o)
	write(certify(t, authority, newSigner(t).PublicKey(), ssh.UserCert, o.User))
	mustFail(t, o, instance.ReasonAuthenticationFailed, file, "does not belong")
	write(key.PublicKey())
	mustFail(t, o, instance.ReasonAuthenticationFailed, file, "not a certificate")
}

func TestCheckKey(t *testing.T) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := writePEM(t, key)
	certified := func(validBefore time.Time) string {
		file := writePEM(t, key)
		cert := &ssh.Certificate{Key: publicOf(t, key), CertType: ssh.UserCert, ValidPrincipals: []string{"kvm2d"}, ValidBefore: uint64(validBefore.Unix())}
		if err := cert.SignCert(rand.Reader, newSigner(t)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file+"-cert.pub", ssh.MarshalAuthorizedKey(cert), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	locked := lock(t, writePEM(t, key), "correct horse")
	for name, tc := range map[string]struct{ file, passphrase, want string }{
		"good":             {good, "", ""},
		"not a key":        {writeFile(t, "key", "a key"), "", "not a private key"},
		"locked":           {locked, "", "no passphrase file is configured"},
		"wrong passphrase": {locked, writeFile(t, "passphrase", "staple"), "not unlocked"},
		"unlocked":         {locked, writeFile(t, "passphrase", "correct horse\n"), ""},
		"certified":        {certified(time.Now().Add(time.Hour)), "", ""},
		"expired":          {certified(time.Now().Add(-time.Hour)), "", "-cert.pub expired at "},
	} {
		t.Run(name, func(t *testing.T) {
			switch err := CheckKey(tc.file, tc.passphrase); {
			case tc.want == "" && err != nil:
				t.Errorf("got %v, want none", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestSSH_agent(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{})
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "agent")
	ln := listen(t, "unix", socket)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			work.Go(func() { _ = agent.ServeAgent(ring, conn); _ = conn.Close() })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); work.Wait() })
	s := serveSSH(t, &sshServer{accept: only(publicOf(t, key))})
	o := optionsFor(t, s, f)
	o.AgentSocket = socket
	mustServe(t, o) // beside a key file that is refused
	o.KeyFile = ""
	mustServe(t, o)
}

func TestSSH_refusedKeyIsPermanent(t *testing.T) {
	s := serveSSH(t, &sshServer{accept: func(ssh.ConnMetadata, ssh.PublicKey) error { return errors.New("no") }})
	err := failure(t, optionsFor(t, s, nil), instance.ReasonAuthenticationFailed, "authorized_keys")
	if !errors.Is(err, errAuthRefused) {
		t.Errorf("got %v, want errAuthRefused", err)
	}
}

// TestSSH_lossDuringAuthIsNoRefusal: a host that goes down while it looks at
// the key has not refused it.
func TestSSH_lossDuringAuthIsNoRefusal(t *testing.T) {
	s := &sshServer{}
	s.accept = func(ssh.ConnMetadata, ssh.PublicKey) error {
		s.drop()
		return errors.New("too late")
	}
	mustFail(t, optionsFor(t, serveSSH(t, s), nil), instance.ReasonUnreachable)
}

func TestSSH_jumpHost(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{})
	target, jump := serveSSH(t, &sshServer{}), serveSSH(t, &sshServer{})
	o := optionsFor(t, target, f)
	o.Jump = &SSHEndpoint{Addr: jump.addr, User: "jumper", KeyFile: writeKey(t), KnownHostsFile: knownHosts(t, jump)}
	mustServe(t, o)
	eventually(t, "both hops are closed", func() bool { return target.open.Load() == 0 && jump.open.Load() == 0 })
	if !slices.Contains(jump.users, "jumper") || !slices.Contains(target.users, "kvm2d") {
		t.Errorf("users: jump %v, target %v", jump.users, target.users)
	}
	// Each hop's key is checked against its own file.
	swapped := o
	swapped.KnownHostsFile = o.Jump.KnownHostsFile
	mustFail(t, swapped, instance.ReasonHostKeyRejected, target.addr)
	swapped = o
	swapped.Jump = &SSHEndpoint{Addr: jump.addr, User: "jumper", KeyFile: o.Jump.KeyFile, KnownHostsFile: o.KnownHostsFile}
	mustFail(t, swapped, instance.ReasonHostKeyRejected, jump.addr)
	// A jump host that does not let us on is no refusal of ours.
	jump.refuseChannels.Store(true)
	mustFail(t, o, instance.ReasonUnreachable, "from the jump host")
	eventually(t, "both hops are closed", func() bool { return target.open.Load() == 0 && jump.open.Load() == 0 })
}

// TestSSH_keyMaterialNeverInErrorsOrLogs breaks the keys in every way there is
// and searches all that comes out for any part of them.
func TestSSH_keyMaterialNeverInErrorsOrLogs(t *testing.T) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const passphrase = "sentinel-passphrase-5f1c"
	good, err := os.ReadFile(writePEM(t, key))
	if err != nil {
		t.Fatal(err)
	}
	locked, err := os.ReadFile(lock(t, writePEM(t, key), passphrase))
	if err != nil {
		t.Fatal(err)
	}
	refusing := serveSSH(t, &sshServer{accept: func(ssh.ConnMetadata, ssh.PublicKey) error { return errors.New("no") }})
	base := optionsFor(t, refusing, nil)
	var variants []SSHOptions
	add := func(key []byte, pass string, change func(*SSHOptions)) {
		o := base
		o.KeyFile = writeFile(t, "key", string(key))
		if pass != "" {
			o.PassphraseFile = writeFile(t, "passphrase", pass)
		}
		if change != nil {
			change(&o)
		}
		variants = append(variants, o)
	}
	add(good, "", nil)
	add(good[:len(good)/2], "", nil)
	add(bytes.ReplaceAll(good, []byte("-----BEGIN"), []byte("---- BEGIN")), "", nil)
	add(append([]byte("x"), good...), passphrase, nil)
	add(locked, "", nil)
	add(locked, passphrase, nil)
	add(locked, passphrase+"-wrong", nil)
	add(good, "", func(o *SSHOptions) { o.KnownHostsFile = o.KeyFile })
	add(good, "", func(o *SSHOptions) {
		if err := os.WriteFile(o.KeyFile+"-cert.pub", good, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	secrets := []string{passphrase, string(key.Seed()), base64.StdEncoding.EncodeToString(key.Seed())}
	for _, pem := range [][]byte{good, locked} {
		for line := range strings.Lines(string(pem)) {
			if line = strings.TrimSpace(line); len(line) > 16 && !strings.HasPrefix(line, "--") {
				secrets = append(secrets, line, line[1:17])
			}
		}
	}
	for i, o := range variants {
		c, err := NewSSHConnector(o)
		if err != nil {
			t.Fatal(err)
		}
		w := watch(t, instance.LevelDetail-8, c)
		_, err = w.Backend().ConnectGetHostname(t.Context())
		if err == nil {
			t.Fatalf("variant %d connected", i)
		}
		out := w.everything(t) + err.Error()
		if !strings.Contains(out, "libvirt dial") {
			t.Errorf("variant %d left no line", i)
		}
		for _, secret := range secrets {
			if strings.Contains(out, secret) {
				t.Errorf("variant %d: %q came out:\n%s", i, secret, out)
			}
		}
	}
}
