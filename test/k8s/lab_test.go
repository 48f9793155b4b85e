//go:build k8s

package k8s_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The names by which Pods reach the lab. Cluster DNS knows them; test/k8s/settings
// has them, too.
const (
	domainOfLab = "lab.test"
	imagesURL   = "http://images." + domainOfLab
)

// labHosts are the lab's, by their names there and in the configuration.
var labHosts = []string{"h1", "h2"}

// labFile reads a file of the lab's state folder.
func labFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(os.Getenv("KVM2D_LAB"), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// knownHosts vouches for the lab's hosts under the names that Pods dial.
func knownHosts(t *testing.T) string {
	t.Helper()
	var lines strings.Builder
	for _, host := range labHosts {
		for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
			key := strings.Fields(labFile(t, host+"/ssh_host_"+kind+"_key.pub"))
			lines.WriteString(host + "." + domainOfLab + " " + key[0] + " " + key[1] + "\n")
		}
	}
	return lines.String()
}

// onHost runs a command as root on a lab host, with stdin.
func onHost(t *testing.T, stdin, host string, args ...string) string {
	t.Helper()
	out, err := try(t, stdin, "../lab/lab", append([]string{"exec", host}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// authorize lets the owner of publicKey, and nobody else, log in to the lab's hosts.
func authorize(t *testing.T, publicKey string) {
	t.Helper()
	for _, host := range labHosts {
		onHost(t, publicKey, host, "sh", "-c", "cat >/run/kvm2d/authorized_keys")
	}
}

// domains are the names of all domains on a lab host, whether they run or not.
func domains(t *testing.T, host string) []string {
	t.Helper()
	return strings.Fields(onHost(t, "", host, "virsh", "--quiet", "list", "--all", "--name"))
}

// domainState is what libvirt says of a domain: running, or shut off.
func domainState(t *testing.T, host, domain string) string {
	t.Helper()
	return strings.TrimSpace(onHost(t, "", host, "virsh", "--quiet", "domstate", domain))
}

// volumes are the names of the volumes of an instance on a lab host, those of
// unfinished attempts included.
func volumes(t *testing.T, host, instance string) []string {
	t.Helper()
	onHost(t, "", host, "virsh", "--quiet", "pool-refresh", "default")
	var names []string
	for line := range strings.Lines(onHost(t, "", host, "virsh", "--quiet", "vol-list", "default")) {
		if fields := strings.Fields(line); len(fields) > 0 && strings.HasPrefix(fields[0], "kvm2.kvm2d."+instance+".") {
			names = append(names, fields[0])
		}
	}
	return names
}
