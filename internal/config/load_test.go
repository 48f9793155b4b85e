package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestLoad_full(t *testing.T) {
	got, warnings, err := Load("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const podDir = "/var/run/secrets/kubernetes.io/serviceaccount/"
	want := &Config{
		Server: Server{
			Listen: "0.0.0.0:8443", AdminListen: ":9090", Pprof: true,
			Auth: Auth{
				Token: &TokenAuth{File: "/etc/kvm2d/auth/tokens"},
				TokenReview: &TokenReviewAuth{
					Audience: "kvm2d", CAFile: podDir + "ca.crt", TokenFile: podDir + "token",
					Allow: []AllowAccount{{ServiceAccount: "proxies/operator", Role: RoleFull}},
				},
				ClientCert: &ClientCertAuth{CAFile: "/etc/kvm2d/ca.pem", Allow: []AllowName{{Name: "operator", Role: RoleRead}}},
			},
			TLS: &TLS{CertFile: "/etc/kvm2d/tls.crt", KeyFile: "/etc/kvm2d/tls.key"},
		},
		Timeouts: Timeouts{
			Dial: 5 * time.Second, Call: 20 * time.Second, Start: 90 * time.Second, Agent: time.Second,
			Stall: 30 * time.Second, Transfer: 0, Drain: 10 * time.Second,
		},
		Limits:        Limits{CreateWait: 5 * time.Minute, CreatesPerHost: 2, Requests: 64, RequestBodyMiB: 2, TransferBufferMiB: 32},
		ProbeInterval: time.Minute,
		KVM2: KVM2{
			Owner: "team-a",
			Hosts: []Host{
				{
					Name: "beelink", URI: "qemu+ssh://kvm2d@beelink.example.net:2222/system",
					SSHKeyFile: "/etc/kvm2d/ssh/id_ed25519", PassphraseFile: "/etc/kvm2d/ssh/passphrase",
					AgentSocket:    "/run/kvm2d/agent.sock",
					KnownHostsFile: "/etc/kvm2d/ssh/known_hosts",
					Jump: &Jump{
						URI: "ssh://jump@gate.example.net", SSHKeyFile: "/etc/kvm2d/ssh/jump",
						KnownHostsFile: "/etc/kvm2d/ssh/known_hosts",
					},
					Pool: "images", Bridge: "br0", DomainType: "kvm", Emulator: "/usr/bin/qemu-system-x86_64",
					Socket: "/run/libvirt/libvirt-sock", Maintenance: true,
				},
				{Name: "here", URI: "qemu:///system", Pool: "default", Network: "default", DomainType: "auto"},
			},
			Images: map[string]Image{"debian-13": {
				URL:      "https://mirror.example.net/debian-13.qcow2",
				SHA256:   "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
				Firmware: "bios", Format: "qcow2", VendorDataFile: "/etc/kvm2d/vendor.sh", DecompressLimitGiB: 20,
			}},
			Sizes: map[string]Size{
				"small":    {VCPUs: 1, MemoryMiB: 1024, DiskGiB: 10},
				"as-image": {VCPUs: 2, MemoryMiB: 2048},
			},
			Placements: map[string]Placement{"beelink": {Host: "beelink", Image: "debian-13", Size: "small"}},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if len(warnings) > 0 {
		t.Errorf("warnings: got %v, want none", warnings)
	}
	wantEnds := []Endpoint{{User: "kvm2d", Host: "beelink.example.net", Port: 2222}, {Local: true}}
	for i, want := range wantEnds {
		if got := got.KVM2.Hosts[i].Endpoint(); got != want {
			t.Errorf("endpoint of host %d: got %+v, want %+v", i, got, want)
		}
	}
	if got, want := got.KVM2.Hosts[0].Jump.Endpoint(), (Endpoint{User: "jump", Host: "gate.example.net", Port: 22}); got != want {
		t.Errorf("endpoint of the jump server: got %+v, want %+v", got, want)
	}
}

func TestLoad_leastGetsDefaults(t *testing.T) {
	got, _, err := Load("testdata/least.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.KVM2.Hosts = []Host{{Name: "here", URI: "qemu:///system", Pool: "default", Network: "default", DomainType: "auto"}}
	if diff := cmp.Diff(&want, got, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestLoad_fileThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Load(filepath.Join(dir, "absent.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent file: got %v, want fs.ErrNotExist in the chain", err)
	}
	if _, _, err := Load(dir); err == nil {
		t.Error("a directory: got no error")
	}
	big := filepath.Join(dir, "big.yaml")
	if err := os.WriteFile(big, []byte(strings.Repeat("# x\n", maxFileBytes/4+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(big); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a huge file: got %v, want an error that says so", err)
	}
}

func TestParse_warnings(t *testing.T) {
	_, got, err := Parse("kvm2d.yaml", []byte(`server:
  listen: :8080
  auth: {}
kvm2:
  hosts:
    - name: a
      uri: qemu+ssh://kvm2d@a/system
      sshKeyFile: /k
      insecureIgnoreHostKey: true
      bridge: br0
  images:
    plain: {url: "http://mirror.example.net/x.img"}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Fault{
		{"server.listen", 2, "not a loopback address, and server.auth is empty: serve refuses to start without --insecure-no-auth"},
		{"kvm2.placements", 4, "none: nothing can be created"},
		{"kvm2.hosts[0].insecureIgnoreHostKey", 9, "any machine can pass for this host"},
		{"kvm2.images.plain", 12, "no sha256 or sha512: what is downloaded is not checked"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestParse_emptyAllowListWarns(t *testing.T) {
	_, got, err := Parse("kvm2d.yaml", []byte("server: {auth: {tokenReview: {}}}\nkvm2:\n"+hostLines+"  images: {i: {url: \"https://m/i\", sha256: "+
		strings.Repeat("0", 63)+"a}}\n  sizes: {s: {vcpus: 1, memoryMiB: 64}}\n  placements: {p: {host: here, image: i, size: s}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Fault{{"server.auth.tokenReview.allow", 1, "empty: no ServiceAccount is let in"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:8080": true, "127.9.9.9:0": true, "[::1]:80": true, "localhost:1": true, "[::ffff:127.0.0.1]:1": true,
		":8080": false, "0.0.0.0:80": false, "[::]:80": false, "10.0.0.1:80": false, "example.net:80": false, "nonsense": false,
	} {
		if got := Loopback(addr); got != want {
			t.Errorf("Loopback(%q) = %v, want %v", addr, got, want)
		}
	}
}

func TestParse_agentInsteadOfAKey(t *testing.T) {
	text := strings.Replace(sshHost, "sshKeyFile: /k", "agentSocket: /run/agent", 1) +
		"      jump: {uri: ssh://a@b, agentSocket: /run/agent, knownHostsFile: /h}\n"
	got, _, err := Parse("kvm2d.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	h := got.KVM2.Hosts[0]
	if h.AgentSocket != "/run/agent" || h.Jump.AgentSocket != "/run/agent" {
		t.Errorf("got agents %q and %q, want both", h.AgentSocket, h.Jump.AgentSocket)
	}
}
