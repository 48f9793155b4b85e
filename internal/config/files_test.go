package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	key, known := write("key", "k"), write("known_hosts", "h")
	checks := FileChecks{
		Key: func(file, passphraseFile string) error {
			if file == key && passphraseFile == "" {
				return nil
			}
			return fmt.Errorf("%s: no key with %s", file, passphraseFile)
		},
		KnownHosts: func(file, addr string) error {
			if file == known && addr == "far:2222" {
				return nil
			}
			return fmt.Errorf("%s: nothing for %s", file, addr)
		},
	}
	host := func(uri string) Host { return Host{URI: uri, SSHKeyFile: key, KnownHostsFile: known} }

	cfg := Config{
		Server: Server{
			TLS:  &TLS{CertFile: path("absent.crt"), KeyFile: dir},
			Auth: Auth{Token: &TokenAuth{File: write("tokens", "")}},
		},
		KVM2: KVM2{
			Hosts: []Host{
				host("qemu+ssh://u@far:2222/system"),
				host("qemu+ssh://u@far/system"),
				{URI: "qemu+ssh://u@x/system", SSHKeyFile: path("absent"), KnownHostsFile: known},
				{URI: "qemu+ssh://u@far:2222/system", SSHKeyFile: key, PassphraseFile: write("passphrase", "p"), KnownHostsFile: known},
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
	for _, f := range cfg.CheckFiles(checks) {
		got = append(got, strings.ReplaceAll(f.String(), dir, "DIR"))
	}
	want := []string{
		"server.tls.certFile: DIR/absent.crt: no such file",
		"server.tls.keyFile: DIR: not a regular file",
		"server.auth.token.file: DIR/tokens: empty",
		"kvm2.hosts[1].knownHostsFile: DIR/known_hosts: nothing for far:22",
		"kvm2.hosts[2].sshKeyFile: DIR/absent: no such file",
		"kvm2.hosts[2].knownHostsFile: DIR/known_hosts: nothing for x:22",
		"kvm2.hosts[3].sshKeyFile: DIR/key: no key with DIR/passphrase",
		"kvm2.hosts[5].passphraseFile: DIR/absent: no such file",
		"kvm2.hosts[5].jump.knownHostsFile: DIR/known_hosts: nothing for gate:22",
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
	if diff := cmp.Diff(want, cfg.CheckFiles(FileChecks{})); diff != "" {
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

func TestCheckFiles_tokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Server: Server{Auth: Auth{Token: &TokenAuth{File: file}}}}
	bad := func(string) error { return errors.New("line 1: want name, role and token") }
	want := []Fault{{Path: "server.auth.token.file", Text: "line 1: want name, role and token"}}
	if diff := cmp.Diff(want, cfg.CheckFiles(FileChecks{Tokens: bad})); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if got := cfg.CheckFiles(FileChecks{Tokens: func(string) error { return nil }}); got != nil {
		t.Errorf("a good file: got %v", got)
	}
}
