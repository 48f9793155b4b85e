//go:build faults

package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
)

// keep takes a file away for a while.
func (x *target) keep(file string) {
	x.Helper()
	x.rename(file, file+".kept")
}

// restore brings back what keep took away.
func (x *target) restore(file string) {
	x.Helper()
	x.rename(file+".kept", file)
}

func (x *target) rename(from, to string) {
	x.Helper()
	if err := os.Rename(from, to); err != nil {
		x.Fatal(err)
	}
}

// newKey makes a key pair that nobody knows.
func (x *target) newKey(file string) {
	x.Helper()
	command(x.T, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "faults", "-f", file)
}

// newHostKey is where a changed host key is.
func (x *target) newHostKey() string { return filepath.Join(filepath.Dir(x.key), "host_key") }

// trust writes known_hosts anew, with one public key for the host.
func (x *target) trust(publicKeyFile string) {
	x.Helper()
	public, err := os.ReadFile(publicKeyFile)
	if err != nil {
		x.Fatal(err)
	}
	line := fmt.Sprintf("%s %s", bracketed(x.T, x.addr), public)
	if err := os.WriteFile(x.knownHosts, []byte(line), 0o600); err != nil {
		x.Fatal(err)
	}
}
