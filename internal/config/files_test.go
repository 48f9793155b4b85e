package config

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func TestCheckFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path(name)
	}
	pub, err := ssh.NewPublicKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public())
	if err != nil {
		t.Fatal(err)
	}
	key := write("key", "k")
	known := write("known_hosts", knownhosts.Line([]string{"far:2222"}, pub)+"\n"+
		"@cert-authority *.lab.example.net "+string(ssh.MarshalAuthorizedKey(pub))+"\n"+
		knownhosts.HashHostname(knownhosts.Normalize("hashed:22"))+" "+string(ssh.MarshalAuthorizedKey(pub)))
	host := func(uri string) Host { return Host{URI: uri, SSHKeyFile: key, KnownHostsFile: known} }

	cfg := Config{
		Server: Server{
			TLS:  &TLS{CertFile: path("absent.crt"), KeyFile: dir},
			Auth: Auth{Token: &TokenAuth{File: write("tokens", "")}},
		},
		KVM2: KVM2{
			Hosts: []Host{
				host("qemu+ssh://u@far:2222/system"),
				host("qemu+ssh://u@a.lab.example.net/system"),
				host("qemu+ssh://u@hashed/system"),
				host("qemu+ssh://u@far/system"),
				{URI: "qemu+ssh://u@x/system", SSHKeyFile: path("absent"), KnownHostsFile: write("broken", "not a line of known_hosts\n")},
				{URI: "qemu:///system"},
				{
					URI: "qemu+ssh://u@far:2222/system", SSHKeyFile: key, KnownHostsFile: known, PassphraseFile: path("absent"),
					Jump: &Jump{URI: "ssh://u@gate", SSHKeyFile: key, KnownHostsFile: known},
				},
			},
			Images: map[string]Image{"i": {VendorDataFile: path("absent.sh")}, "j": {VendorDataFile: key}},
		},
	}
	var got []string
	for _, f := range cfg.CheckFiles() {
		got = append(got, strings.ReplaceAll(f.String(), dir, "DIR"))
	}
	want := []string{
		"server.tls.certFile: DIR/absent.crt: no such file",
		"server.tls.keyFile: DIR: not a regular file",
		"server.auth.token.file: DIR/tokens: empty",
		"kvm2.hosts[3].knownHostsFile: DIR/known_hosts: no entry for far",
		"kvm2.hosts[4].sshKeyFile: DIR/absent: no such file",
		"kvm2.hosts[4].knownHostsFile: knownhosts: DIR/broken: no valid entries, line 1: ssh: short read",
		"kvm2.hosts[6].passphraseFile: DIR/absent: no such file",
		"kvm2.hosts[6].jump.knownHostsFile: DIR/known_hosts: no entry for gate",
		"kvm2.images.i.vendorDataFile: DIR/absent.sh: no such file",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestCheckFiles_tellsLines(t *testing.T) {
	cfg, _, err := Parse("f", []byte(sshHost))
	if err != nil {
		t.Fatal(err)
	}
	want := []Fault{
		{"kvm2.hosts[0].sshKeyFile", 5, "/k: no such file"},
		{"kvm2.hosts[0].knownHostsFile", 6, "/h: no such file"},
	}
	if diff := cmp.Diff(want, cfg.CheckFiles()); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestCheckFiles_noPermission(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("x"), 0o000); err != nil {
		t.Fatal(err)
	}
	if got, want := unreadableFile(file), file+": no permission to read it"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
