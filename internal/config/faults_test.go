package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// hostLines is one valid host: four lines, its list's key included.
const hostLines = "  hosts:\n    - name: here\n      uri: qemu:///system\n      network: default\n"

// base is a valid file of five lines for rows that add to it.
const base = "kvm2:\n" + hostLines

// sshHost is a file with one host over SSH, to which a row adds keys of the host.
const sshHost = `kvm2:
  hosts:
    - name: far
      uri: qemu+ssh://kvm2d@far/system
      sshKeyFile: /k
      knownHostsFile: /h
      bridge: br0
`

func withURI(uri string) string {
	return strings.Replace(sshHost, "qemu+ssh://kvm2d@far/system", `"`+uri+`"`, 1)
}

func TestParse_faults(t *testing.T) {
	const hostForm = "want qemu+ssh://user@host[:port]/system, or qemu:///system for this machine"
	tests := []struct {
		name, yaml string
		want       []string
	}{
		// The file as a whole.
		{"empty", "", []string{"line 1: the file is empty"}},
		{"only comments", "# nothing\n", []string{"line 1: the file is empty"}},
		{"nothing but a marker", "---\n", []string{"line 2: no value: give one, or leave the key out"}},
		{"a list", "- a\n", []string{"line 1: want a block of keys, got a list"}},
		{"text", "hello\n", []string{"line 1: want a block of keys, got text"}},
		{"not UTF-8", "kvm2: \n  owner: \xff\n", []string{"line 2: not UTF-8 text"}},
		{"tab", "kvm2:\n\thosts: []\n", []string{"line 2: a tab in the indentation: YAML wants spaces"}},
		{"unclosed", "kvm2: {hosts: [\n", []string{"line 1: not YAML: did not find expected node content"}},
		{"second document", base + "---\nkvm2: {}\n", []string{"line 6: a second YAML document: one file holds one configuration"}},
		{"broken second document", base + "---\n\"\n", []string{"line 7: not YAML: found unexpected end of stream"}},
		{"no kvm2", "probeInterval: 10s\n", []string{"kvm2: line 1: missing: it holds hosts, images, sizes and placements"}},

		// Keys.
		{"unknown key", base + "server: {lissten: x}\n", []string{"server.lissten: line 6: unknown key: did you mean listen?"}},
		{"unknown key, far from any", base + "timeouts: {forever: 1s}\n", []string{
			"timeouts.forever: line 6: unknown key: known here are dial, call, start, agent, stall, transfer, drain",
		}},
		{"case matters", "Kvm2:\n" + hostLines, []string{
			"Kvm2: line 1: unknown key: did you mean kvm2?",
			"kvm2: line 1: missing: it holds hosts, images, sizes and placements",
		}},
		{"duplicate key", base + "  owner: a\n  owner: b\n", []string{"kvm2.owner: line 7: given twice: first on line 6"}},
		{
			"duplicate name", base + "  sizes:\n    s: {vcpus: 1, memoryMiB: 64}\n    s: {vcpus: 1, memoryMiB: 64}\n",
			[]string{"kvm2.sizes.s: line 8: given twice: first on line 7"},
		},
		{"merge key", base + "timeouts: {<<: {dial: 1s}}\n", []string{"timeouts[\"<<\"]: line 6: merge keys are not supported: write the keys out"}},
		{"anchor", base + "timeouts: {dial: &d 1s}\n", []string{"timeouts.dial: line 6: anchors and aliases are not supported: write the value out"}},
		{"alias", "probeInterval: &d 1s\ntimeouts: {dial: *d}\n" + base, []string{
			"probeInterval: line 1: anchors and aliases are not supported: write the value out",
			"timeouts.dial: line 2: anchors and aliases are not supported: write the value out",
		}},
		{"key that is a list", base + "? [a]\n: b\n", []string{"line 6: a key must be a plain name"}},
		{"no value", base + "server:\n  auth:\n", []string{"server.auth: line 7: no value: give one, or leave the key out"}},

		// Kinds of values.
		{"number for a name", "kvm2:\n  owner: 12\n" + hostLines, []string{"kvm2.owner: line 2: want text, got 12: put it in quotes"}},
		{"truth value for a name", "kvm2:\n  owner: no\n" + hostLines, []string{
			`kvm2.owner: line 2: want text: without quotes, no is a truth value to YAML; write "no"`,
		}},
		{"truth value as a key", base + "  sizes:\n    on: {vcpus: 1, memoryMiB: 64}\n", []string{
			`kvm2.sizes.on: line 7: want text: without quotes, on is a truth value to YAML; write "on"`,
		}},
		{"date for a name", "kvm2:\n  owner: 2026-01-02\n" + hostLines, []string{"kvm2.owner: line 2: want text, got 2026-01-02: put it in quotes"}},
		{"block for a name", "kvm2:\n  owner: {a: b}\n" + hostLines, []string{"kvm2.owner: line 2: want text, got a block of keys"}},
		{"tagged name", "kvm2:\n  owner: !!binary aGV5\n" + hostLines, []string{"kvm2.owner: line 2: want text, got text"}},
		{"octal", base + "limits: {requests: 0123}\n", []string{"limits.requests: line 6: want a whole number in plain decimal, got 0123"}},
		{"hexadecimal", base + "limits: {requests: 0x10}\n", []string{"limits.requests: line 6: want a whole number in plain decimal, got 0x10"}},
		{"fraction", base + "limits: {requests: 1.0}\n", []string{"limits.requests: line 6: want a whole number in plain decimal, got 1.0"}},
		{"underscore", base + "limits: {requests: 1_000}\n", []string{"limits.requests: line 6: want a whole number in plain decimal, got 1_000"}},
		{"quoted number", base + "limits: {requests: \"5\"}\n", []string{"limits.requests: line 6: want a whole number in plain decimal, got text"}},
		{"huge number", base + "limits: {requests: 99999999999999999999}\n", []string{"limits.requests: line 6: the number is out of range"}},
		{"too large a number", base + "limits: {requests: 1000000}\n", []string{"limits.requests: line 6: want 1 to 100000, got 1000000"}},
		{"negative number", base + "limits: {createsPerHost: -1}\n", []string{"limits.createsPerHost: line 6: want 1 to 100, got -1"}},
		{"flag that is a word", base + "      maintenance: yes\n", []string{"kvm2.hosts[0].maintenance: line 6: want true or false, got yes"}},
		{"duration without unit", base + "probeInterval: 30\n", []string{"probeInterval: line 6: want a duration with a unit, such as 30s or 15m, got 30"}},
		{"duration that is a list", base + "probeInterval: [1]\n", []string{"probeInterval: line 6: want a duration such as 30s or 15m, got a list"}},
		{"duration too short", base + "timeouts: {dial: 1ns}\n", []string{"timeouts.dial: line 6: want 100ms to 5m0s, got 1ns"}},
		{"negative duration", base + "timeouts: {transfer: -1s}\n", []string{"timeouts.transfer: line 6: want 1s to 168h0m0s, got -1s"}},
		{"list that is a block", "kvm2:\n  hosts: {a: b}\n", []string{"kvm2.hosts: line 2: want a list, got a block of keys"}},

		// The server.
		{"listen without port", base + "server: {listen: 127.0.0.1}\n", []string{"server.listen: line 6: want host:port, with a port of 0 to 65535"}},
		{"listen with a bad port", base + "server: {listen: \":70000\"}\n", []string{"server.listen: line 6: want host:port, with a port of 0 to 65535"}},
		{"one address for both", base + "server: {listen: \":80\", adminListen: \":80\"}\n", []string{"server.adminListen: line 6: the same address as server.listen"}},
		{"token without file", base + "server: {auth: {token: {}}}\n", []string{"server.auth.token.file: line 6: missing"}},
		{"token review", base + "server:\n  auth:\n    tokenReview:\n      apiServer: http://x\n      allow:\n        - {serviceAccount: x, role: full}\n        - {serviceAccount: a/b, role: boss}\n        - {serviceAccount: a/b, role: read}\n", []string{
			"server.auth.tokenReview.apiServer: line 9: want https://host[:port]",
			"server.auth.tokenReview.allow[0].serviceAccount: line 11: want namespace/name",
			"server.auth.tokenReview.allow[1].role: line 12: want full or read",
			"server.auth.tokenReview.allow[2].serviceAccount: line 13: the same as server.auth.tokenReview.allow[1].serviceAccount on line 12",
		}},
		{"client certificates without TLS", base + "server: {auth: {clientCert: {allow: [{name: a}]}}}\n", []string{
			"server.auth.clientCert: line 6: client certificates need server.tls",
			"server.auth.clientCert.allow[0].role: line 6: want full or read",
			"server.auth.clientCert.caFile: line 6: missing",
		}},
		{"half of TLS", base + "server: {tls: {certFile: /c}}\n", []string{"server.tls.keyFile: line 6: missing"}},

		// Hosts.
		{"no hosts", "kvm2:\n  hosts: []\n", []string{"kvm2.hosts: line 2: at least one host is needed"}},
		{"empty host", "kvm2:\n  hosts: [{}]\n", []string{
			"kvm2.hosts[0]: line 2: bridge or network is missing: instances need one of them",
			"kvm2.hosts[0].name: line 2: missing",
			"kvm2.hosts[0].uri: line 2: missing: " + hostForm,
		}},
		{"host that is text", "kvm2:\n  hosts: [beelink]\n", []string{"kvm2.hosts[0]: line 2: want a block of keys, got text"}},
		{"name with a dot", strings.Replace(base, "name: here", "name: here.local", 1), []string{"kvm2.hosts[0].name: line 3: " + labelRule}},
		{"upper case", strings.Replace(base, "name: here", "name: Here", 1), []string{"kvm2.hosts[0].name: line 3: " + labelRule}},
		{"owner", base + "  owner: a_b\n", []string{"kvm2.owner: line 6: " + labelRule}},
		{"two of a name", sshHost + "    - name: far\n      uri: qemu:///system\n      network: x\n", []string{
			"kvm2.hosts[1].name: line 8: the same as kvm2.hosts[0].name on line 3",
		}},
		{"two of a libvirt", base + "    - name: again\n      uri: qemu:///system\n      bridge: br0\n", []string{
			"kvm2.hosts[1].uri: line 7: the same libvirt and pool as kvm2.hosts[0]",
		}},
		{"bridge and network", sshHost + "      network: default\n", []string{"kvm2.hosts[0].network: line 8: bridge is given too: choose one"}},
		{"bad words", base + "      domainType: xen\n      emulator: qemu\n      socket: /a/../b\n      pool: a/b\n", []string{
			"kvm2.hosts[0].domainType: line 6: want auto or kvm or qemu",
			"kvm2.hosts[0].emulator: line 7: want an absolute path without . or ..",
			"kvm2.hosts[0].socket: line 8: want an absolute path without . or ..",
			"kvm2.hosts[0].pool: line 9: want the name of a libvirt storage pool",
		}},
		{"bridge name", strings.Replace(sshHost, "br0", "a-name-of-sixteen", 1), []string{"kvm2.hosts[0].bridge: line 7: want the name of a bridge, at most 15 characters"}},
		{"network name", strings.Replace(base, "default", "\"../x\"", 1), []string{"kvm2.hosts[0].network: line 5: want the name of a libvirt network"}},
		{"SSH keys on a local host", base + "      sshKeyFile: /k\n      jump: {uri: ssh://a@b, sshKeyFile: /k, knownHostsFile: /h}\n", []string{
			"kvm2.hosts[0].sshKeyFile: line 6: does not go with qemu:///system, which is reached without SSH",
			"kvm2.hosts[0].jump: line 7: does not go with qemu:///system, which is reached without SSH",
		}},
		{"SSH without key and known hosts", strings.Replace(strings.Replace(sshHost, "      sshKeyFile: /k\n", "", 1), "      knownHostsFile: /h\n", "", 1), []string{
			"kvm2.hosts[0].knownHostsFile: line 3: missing: the host's key must be known",
			"kvm2.hosts[0].sshKeyFile: line 3: missing",
		}},
		{"an agent nowhere", sshHost + "      agentSocket: agent\n", []string{
			"kvm2.hosts[0].agentSocket: line 8: want an absolute path without . or ..",
		}},
		{"both ways about the host key", sshHost + "      insecureIgnoreHostKey: true\n", []string{
			"kvm2.hosts[0].insecureIgnoreHostKey: line 8: knownHostsFile is given too: choose one",
		}},
		{"jump", sshHost + "      jump: {uri: \"qemu+ssh://a@b/system\"}\n", []string{
			"kvm2.hosts[0].jump.knownHostsFile: line 8: missing",
			"kvm2.hosts[0].jump.sshKeyFile: line 8: missing",
			"kvm2.hosts[0].jump.uri: line 8: want ssh://user@host[:port]",
		}},

		// A host's uri. Its value is never repeated: people put passwords there.
		{"uri of another driver", withURI("xen:///system"), []string{"kvm2.hosts[0].uri: line 4: " + hostForm}},
		{"uri of a session", withURI("qemu+ssh://kvm2d@far/session"), []string{"kvm2.hosts[0].uri: line 4: the path must be /system: " + hostForm}},
		{"uri with parameters", withURI("qemu+ssh://kvm2d@far/system?keyfile=/k"), []string{
			"kvm2.hosts[0].uri: line 4: parameters after the path are keys of their own here (sshKeyFile, socket, …): " + hostForm,
		}},
		{"uri with a password", withURI("qemu+ssh://kvm2d:hunter2@far/system"), []string{"kvm2.hosts[0].uri: line 4: a password is not supported: use sshKeyFile"}},
		{"uri without user", withURI("qemu+ssh://far/system"), []string{"kvm2.hosts[0].uri: line 4: the user is missing or malformed: " + hostForm}},
		{"uri without host", withURI("qemu+ssh://kvm2d@/system"), []string{"kvm2.hosts[0].uri: line 4: the host is missing or malformed: " + hostForm}},
		{"uri with a bad port", withURI("qemu+ssh://kvm2d@far:70000/system"), []string{"kvm2.hosts[0].uri: line 4: the port must be 1 to 65535"}},
		{"uri that is none", withURI("qemu+ssh://kvm2d@far:port/system"), []string{"kvm2.hosts[0].uri: line 4: " + hostForm}},

		// What callers may ask for.
		{"image", base + "  images:\n    i:\n      url: ftp://x/y\n      sha256: abc\n      sha512: ABC\n      firmware: ovmf\n      format: vmdk\n      decompressLimitGiB: -1\n", []string{
			"kvm2.images.i.url: line 8: want https://host/path or http://host/path",
			"kvm2.images.i.sha256: line 9: want 64 lower-case hexadecimal digits",
			"kvm2.images.i.sha512: line 10: sha256 is given too: choose one",
			"kvm2.images.i.sha512: line 10: want 128 lower-case hexadecimal digits",
			"kvm2.images.i.firmware: line 11: want uefi or bios",
			"kvm2.images.i.format: line 12: want qcow2 or raw",
			"kvm2.images.i.decompressLimitGiB: line 13: want 0 to 65536, got -1",
		}},
		{"image without url, empty digest", base + "  images: {i: {sha256: \"\"}}\n", []string{
			"kvm2.images.i.sha256: line 6: empty: give the digest, or leave the key out",
			"kvm2.images.i.url: line 6: missing",
		}},
		{"image name", base + "  images: {\"a.b\": {url: \"https://x/y\"}}\n", []string{
			`kvm2.images["a.b"]: line 6: the name is malformed: ` + labelRule,
		}},
		{"size", base + "  sizes: {s: {vcpus: 0, diskGiB: 100000}}\n", []string{
			"kvm2.sizes.s.diskGiB: line 6: want 0 to 65536, got 100000",
			"kvm2.sizes.s.memoryMiB: line 6: want 64 to 16777216, got 0",
			"kvm2.sizes.s.vcpus: line 6: want 1 to 1024, got 0",
		}},
		{"placement without anything", base + "  placements: {p: {}}\n", []string{
			"kvm2.placements.p.host: line 6: missing",
			"kvm2.placements.p.image: line 6: missing",
			"kvm2.placements.p.size: line 6: missing",
		}},
		{"placement of unknown things", base + "  sizes: {s: {vcpus: 1, memoryMiB: 64}}\n  placements: {p: {host: there, image: i, size: t}}\n", []string{
			"kvm2.placements.p.host: line 7: not in kvm2.hosts: known are here",
			"kvm2.placements.p.image: line 7: kvm2.images has no entries",
			"kvm2.placements.p.size: line 7: not in kvm2.sizes: known are s",
		}},
		{"a trap is reported once, not with those who refer to it", strings.Replace(base, "name: here", "name: off", 1) + "  placements: {p: {host: \"off\", image: i, size: s}}\n", []string{
			`kvm2.hosts[0].name: line 3: want text: without quotes, off is a truth value to YAML; write "off"`,
			"kvm2.placements.p.image: line 6: kvm2.images has no entries",
			"kvm2.placements.p.size: line 6: kvm2.sizes has no entries",
		}},

		// All at once.
		{"many", "server: {listen: x, nope: 1}\nprobeInterval: soon\nkvm2:\n  owner: A\n  hosts:\n    - name: b\n      uri: no://thing\n      bridge: br0\n      pol: x\n", []string{
			"server.listen: line 1: want host:port, with a port of 0 to 65535",
			"server.nope: line 1: unknown key: known here are listen, adminListen, pprof, auth, tls",
			"probeInterval: line 2: want a duration with a unit, such as 30s or 15m, got text",
			"kvm2.owner: line 4: " + labelRule,
			"kvm2.hosts[0].uri: line 7: " + hostForm,
			"kvm2.hosts[0].pol: line 9: unknown key: did you mean pool?",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, _, err := Parse("kvm2d.yaml", []byte(tt.yaml))
			var faults *FaultsError
			if !errors.As(err, &faults) {
				t.Fatalf("got configuration %v and error %v, want faults", cfg, err)
			}
			got := make([]string, len(faults.Faults))
			for i, f := range faults.Faults {
				got[i] = f.String()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error repeats a password: %v", err)
			}
		})
	}
}

func TestFaultsError_text(t *testing.T) {
	one := &FaultsError{File: "a.yaml", Faults: []Fault{{"kvm2.owner", 3, "missing"}}}
	if got, want := one.Error(), "a.yaml: 1 fault\nkvm2.owner: line 3: missing"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	two := &FaultsError{File: "a.yaml", Faults: []Fault{{"", 0, "x"}, {"", 2, "y"}}}
	if got, want := two.Error(), "a.yaml: 2 faults\nx\nline 2: y"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzParse holds that no file makes the reader crash, and that one it takes is
// taken again with the same outcome.
func FuzzParse(f *testing.F) {
	f.Add([]byte(base))
	f.Add([]byte(sshHost))
	f.Add([]byte("kvm2: &a {<<: *a, hosts: [*a]}"))
	f.Add([]byte("? {a: b}\n: c"))
	f.Add([]byte("kvm2: !!set {a, b}\n---\n..."))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, warnings, err := Parse("f", data)
		if (cfg == nil) == (err == nil) {
			t.Fatalf("got configuration %v and error %v, want one of them", cfg, err)
		}
		var faults *FaultsError
		if err != nil && (!errors.As(err, &faults) || len(faults.Faults) == 0) {
			t.Fatalf("got %v, want faults", err)
		}
		again, warningsAgain, errAgain := Parse("f", data)
		if diff := cmp.Diff(cfg, again, cmpopts.IgnoreUnexported(Config{})); diff != "" || !cmp.Equal(warnings, warningsAgain) || (err == nil) != (errAgain == nil) {
			t.Fatalf("a second reading differs:\n%s", diff)
		}
	})
}
