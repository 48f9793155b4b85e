package libvirtx

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func authorized(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func newECDSA(t *testing.T) ssh.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func certSigner(t *testing.T, authority, key ssh.Signer, principal string) ssh.Signer {
	t.Helper()
	signer, err := ssh.NewCertSigner(certify(t, authority, key.PublicKey(), ssh.HostCert, principal), key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// TestSSH_knownHostsForms writes each form that OpenSSH takes, for a server on
// 127.0.0.1 that is not on port 22 and has an ecdsa key before its ed25519 one.
func TestSSH_knownHostsForms(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{})
	ed, ec, authority, stranger := newSigner(t), newECDSA(t), newSigner(t), newSigner(t)
	plain := serveSSH(t, &sshServer{hostKeys: []ssh.Signer{ec, ed}})
	certified := serveSSH(t, &sshServer{hostKeys: []ssh.Signer{ec, certSigner(t, authority, ed, "127.0.0.1")}})
	foreign := serveSSH(t, &sshServer{hostKeys: []ssh.Signer{certSigner(t, authority, ed, "elsewhere")}})
	impostor := serveSSH(t, &sshServer{hostKeys: []ssh.Signer{authority}})
	_, plainPort, _ := net.SplitHostPort(plain.addr)
	bracketed := "[127.0.0.1]:" + plainPort

	edKey, ecKey := authorized(ed.PublicKey()), authorized(ec.PublicKey())
	other, caKey := authorized(stranger.PublicKey()), authorized(authority.PublicKey())
	for _, row := range []struct {
		name   string
		server *sshServer
		lines  []string
		// want is "" for a connection.
		want instance.Reason
	}{
		{"bracketed port", plain, []string{bracketed + " " + edKey}, ""},
		{"second kind only", plain, []string{bracketed + " " + ecKey}, ""},
		{"several keys", plain, []string{bracketed + " " + other, bracketed + " " + edKey}, ""},
		{"several hosts", plain, []string{"example.net," + bracketed + " " + edKey}, ""},
		{"hashed", plain, []string{knownhosts.HashHostname(bracketed) + " " + edKey}, ""},
		{"wildcard of any port", plain, []string{"127.0.0.* " + edKey}, ""},
		{"star", plain, []string{"* " + edKey}, ""},
		{"wildcard with port", plain, []string{"[127.0.*]:" + plainPort + " " + edKey}, ""},
		{"without the port", plain, []string{"127.0.0.1 " + edKey}, ""},
		{"comments and broken lines", plain, []string{"# a comment", "", "what is this", bracketed + " " + edKey + " a comment"}, ""},
		{"authority", certified, []string{"@cert-authority 127.0.0.1 " + caKey}, ""},
		{"authority by wildcard", certified, []string{"@cert-authority * " + caKey}, ""},
		{"authority beside a plain key", certified, []string{"@cert-authority * " + caKey, "* " + ecKey}, ""},

		{"negated", plain, []string{"!" + bracketed + "," + bracketed + " " + edKey}, instance.ReasonHostKeyRejected},
		{"another port", plain, []string{"[127.0.0.1]:1 " + edKey}, instance.ReasonHostKeyRejected},
		{"another key of a kind", plain, []string{bracketed + " " + other}, instance.ReasonHostKeyRejected},
		{"revoked", plain, []string{bracketed + " " + edKey, "@revoked * " + edKey}, instance.ReasonHostKeyRejected},
		{"authority for another host", certified, []string{"@cert-authority *.example.net " + caKey}, instance.ReasonHostKeyRejected},
		{"another authority", certified, []string{"@cert-authority * " + other}, instance.ReasonHostKeyRejected},
		{"revoked authority", certified, []string{"@cert-authority * " + caKey, "@revoked * " + caKey}, instance.ReasonHostKeyRejected},
		{"certificate of another host", foreign, []string{"@cert-authority * " + caKey}, instance.ReasonHostKeyRejected},
		{"authority's key as host key", impostor, []string{"@cert-authority * " + caKey}, instance.ReasonHostKeyRejected},
		{"the same beside a plain key", impostor, []string{"@cert-authority * " + caKey, "* " + other}, instance.ReasonHostKeyRejected},
		{"empty file", plain, nil, instance.ReasonHostKeyRejected},
		{"nothing that can be read", plain, []string{"what", "is this"}, instance.ReasonMisconfigured},
	} {
		t.Run(row.name, func(t *testing.T) {
			o := optionsFor(t, row.server, f)
			o.KnownHostsFile = writeFile(t, "known_hosts", strings.Join(row.lines, "\n")+"\n")
			if row.want == "" {
				mustServe(t, o)
				return
			}
			mustFail(t, o, row.want, o.KnownHostsFile)
		})
	}
}

func TestKnownHosts_algorithmsAreThoseOfTheKnownKeys(t *testing.T) {
	rsaLine := "h ssh-rsa " + rsaBlob(t)
	file := writeFile(t, "known_hosts", rsaLine+"\n"+"h "+authorized(newSigner(t).PublicKey())+"\n")
	h, err := readKnownHosts(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoED25519} // no ssh-rsa: that is SHA-1
	if got := h.algorithms("h:22"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := h.algorithms("other:22"); len(got) != 0 {
		t.Errorf("unknown host: got %v, want none", got)
	}
}

func rsaBlob(t *testing.T) string {
	t.Helper()
	// Public part only: exponent 65537 and a modulus of 2048 bits.
	modulus := append([]byte{0}, bytes.Repeat([]byte{0xc5}, 256)...)
	blob := ssh.Marshal(struct {
		Name string
		E, N []byte
	}{ssh.KeyAlgoRSA, []byte{1, 0, 1}, modulus})
	key, err := ssh.ParsePublicKey(blob)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(authorized(key))[1]
}

func TestCheckKnownHosts(t *testing.T) {
	file := writeFile(t, "known_hosts", "[h]:2222 "+authorized(newSigner(t).PublicKey())+"\ngarbage\n")
	if err := CheckKnownHosts(file, "h:2222"); err != nil {
		t.Errorf("known: got %v", err)
	}
	err := CheckKnownHosts(file, "h:22")
	if _, ok := errors.AsType[*hostKeyError](err); !ok || !strings.Contains(err.Error(), "cannot be read: 2") {
		t.Errorf("unknown: got %v, want a hostKeyError that names line 2", err)
	}
	if err := CheckKnownHosts(filepath.Join(t.TempDir(), "absent"), "h:22"); Classify(err) != instance.ReasonCredentialsUnavailable {
		t.Errorf("absent: got %v, want CredentialsUnavailable", err)
	}
}

// TestCheckKnownHosts_namesTheLineThatSpoilsTheFile: the first of those that
// nobody can read; a comment is none.
func TestCheckKnownHosts_namesTheLineThatSpoilsTheFile(t *testing.T) {
	key := authorized(newSigner(t).PublicKey())
	for content, want := range map[string]string{
		"what\nis this\n":             ":1:",
		"# ours\n\nwhat\nis this\n":   ":3:",
		"@unheard-of h " + key + "\n": ":1:",
	} {
		err := CheckKnownHosts(writeFile(t, "known_hosts", content), "h:22")
		if bad, ok := errors.AsType[*badKnownHostsError](err); !ok || !strings.Contains(bad.Error(), want) {
			t.Errorf("%q: got %v, want %s blamed", content, err, want)
		}
	}
}

func FuzzKnownHosts(f *testing.F) {
	f.Add("[h]:2222 " + authorized(newSigner(f).PublicKey()))
	f.Add("@cert-authority * ssh-ed25519 AAAA")
	f.Add("|1|a|b ssh-rsa x")
	key := newSigner(f).PublicKey()
	f.Fuzz(func(t *testing.T, content string) {
		h, err := readKnownHosts(writeFile(t, "known_hosts", content))
		if err != nil {
			return
		}
		h.algorithms("h:2222")
		if err := h.check("h:2222", &net.TCPAddr{Port: 2222}, key); err == nil {
			t.Errorf("a key that was made just now is vouched for by %q", content)
		}
	})
}
