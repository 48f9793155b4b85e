//go:build faults

package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// keep takes a file away for a while.
func keep(t *testing.T, file string) { rename(t, file, file+".kept") }

// restore brings back what keep took away.
func restore(t *testing.T, file string) { rename(t, file+".kept", file) }

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// newKey makes a key pair that nobody knows.
func newKey(t *testing.T, file string) {
	t.Helper()
	command(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "faults", "-f", file)
}

// hostKeyOf is where a changed host key is.
func hostKeyOf(x *target) string { return filepath.Join(filepath.Dir(x.key), "host_key") }

// trust writes known_hosts anew, with one public key for the host.
func trust(t *testing.T, x *target, publicKeyFile string) {
	t.Helper()
	public, err := os.ReadFile(publicKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf("%s %s", bracketed(t, x.addr), public)
	if err := os.WriteFile(x.knownHosts, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
}
