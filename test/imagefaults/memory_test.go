//go:build lab

package imagefaults_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

const (
	bigBytes    = 2 * gib
	bigLimit    = 15 * time.Minute
	memoryLimit = 64 * mib
)

// bigDisk is a raw disk of which the same MiB is repeated all over.
type bigDisk []byte

func (d bigDisk) ReadAt(p []byte, at int64) (int, error) {
	if at >= bigBytes {
		return 0, io.EOF
	}
	n := copy(p, d[at%int64(len(d)):])
	return n, nil
}

// However large an image is, it passes through a daemon of the same size.
func TestMemory(t *testing.T) {
	r := newRig(t)
	disk := bigDisk(randomBytes(1, mib))
	copy(disk[446:512], make([]byte, 64)) // no partitions
	disk[510], disk[511] = 0x55, 0xAA
	sum := sha256.New()
	for range bigBytes / len(disk) {
		_, _ = sum.Write(disk) // never fails
	}
	url := r.mirror.add(&file{ReaderAt: disk, name: "big", size: bigBytes, hurried: true})
	image := source{name: "big", url: url, sha256: hex.EncodeToString(sum.Sum(nil)), format: "raw"}
	d := r.newDaemon(t, build(t), "memory", r.config("{}", []place{{"h1", "h1", "default"}}, []source{image}))
	if err := d.start(); err != nil {
		t.Fatal(err)
	}
	// The first look dials the host.
	if state, _, err := d.imageState("big", "h1"); err != nil || state != "absent" {
		t.Fatalf("got state %q, %v, want absent", state, err)
	}
	idle, begun := residentBytes(t, d.pid(), "VmRSS"), time.Now()
	if got, err := d.call(http.MethodPost, "/images/big/pull?host=h1", nil); err != nil || got.status != http.StatusAccepted {
		t.Fatalf("pull: got %v, %v", got, err)
	}
	poll(t, bigLimit, 500*time.Millisecond, "the big image", func() error {
		state, reason, err := d.imageState("big", "h1")
		if err != nil || state != "ready" {
			return fmt.Errorf("%s %s, %w", state, reason, err)
		}
		return nil
	})
	took, peak := time.Since(begun), residentBytes(t, d.pid(), "VmHWM")
	t.Logf("2 GiB in %v, %d MiB/s; %d MiB resident when idle, %d MiB at most",
		took.Round(time.Second), int(bigBytes/mib/took.Seconds()), idle/mib, peak/mib)
	if peak-idle > memoryLimit {
		t.Errorf("got %d MiB more than when idle, want at most %d", (peak-idle)/mib, memoryLimit/mib)
	}
	if got, err := d.call(http.MethodDelete, "/images/big?host=h1", nil); err != nil || got.status != http.StatusNoContent {
		t.Errorf("delete: got %v, %v", got, err)
	}
}

// residentBytes reads a figure of a process's memory.
func residentBytes(t *testing.T, pid int, figure string) int64 {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var n int64
		if text, ok := strings.CutPrefix(lines.Text(), figure+":"); ok {
			if _, err := fmt.Sscanf(text, "%d kB", &n); err != nil {
				t.Fatal(err)
			}
			return n * kib
		}
	}
	t.Fatalf("no %s of process %d", figure, pid)
	return 0
}
