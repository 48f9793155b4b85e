//go:build lab

package imagefaults_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// randomBytes are the same for the same seed.
func randomBytes(seed uint64, n int) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	data := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(data) // never fails
	return data
}

// newQCOW2 makes a disk of virtual bytes with data at its start.
func newQCOW2(t *testing.T, data []byte, virtual int64) []byte {
	t.Helper()
	raw, disk := filepath.Join(t.TempDir(), "raw"), filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(raw, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(raw, virtual); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, disk).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img: %v\n%s", err, out)
	}
	made, err := os.ReadFile(disk)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func gzipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
