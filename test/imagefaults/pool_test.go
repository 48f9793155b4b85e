//go:build lab

package imagefaults_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// basePrefix is what the names of all volumes of the image cache start with.
const basePrefix = "kvm2-base."

// volumes lists a pool after libvirt has looked at it anew.
func volumes(host, pool string) ([]string, error) {
	if _, err := lab("exec", host, "virsh", "--quiet", "pool-refresh", pool); err != nil {
		return nil, err
	}
	out, err := lab("exec", host, "virsh", "--quiet", "vol-list", pool)
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 0 {
			names = append(names, fields[0])
		}
	}
	return names, nil
}

func deleteVolume(host, name string) error {
	_, err := lab("exec", host, "virsh", "--quiet", "vol-delete", "--pool", "default", name)
	return err
}

// empty removes what an earlier run left of the cache.
func empty(t *testing.T, host string) {
	t.Helper()
	names, err := volumes(host, "default")
	for _, name := range names {
		if err == nil && strings.HasPrefix(name, basePrefix) {
			err = deleteVolume(host, name)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// checkClean tells what is wrong with a pool in which each of the images, by
// name with the hash of what it has to hold, shall be once, and nothing else of
// the cache.
func checkClean(state, host string, hashes map[string]string) error {
	names, err := volumes(host, "default")
	if err != nil {
		return err
	}
	count := 0
	for _, name := range names {
		if strings.HasPrefix(name, "kvm2") {
			count++
		}
	}
	if want := 2 * len(hashes); count != want {
		return fmt.Errorf("%s has %d volumes, want a base and a marker of each image: %q", host, count, names)
	}
	found, err := markedBases(state, host)
	if err != nil {
		return err
	}
	for image := range hashes {
		if len(found[image]) != 1 {
			return fmt.Errorf("%s has %d marked bases of %s, want 1: %q", host, len(found[image]), image, names)
		}
	}
	return nil
}

// checkWhole fails the test for each marked base that does not hold what it has to.
func checkWhole(t *testing.T, state, host string, hashes map[string]string) {
	t.Helper()
	found, err := markedBases(state, host)
	if err != nil {
		t.Fatal(err)
	}
	for image, files := range found {
		for _, file := range files {
			if got, err := hashOf(file); err != nil || got != hashes[image] {
				t.Errorf("%s has a marked base %s with sha256 %s, %v, want %s", host, filepath.Base(file), got, err, hashes[image])
			}
		}
	}
}

// markedBases finds, by image, the bases that the markers in a host's pool point
// at. A marker whose base is gone is none: nobody uses it.
func markedBases(state, host string) (map[string][]string, error) {
	dir := filepath.Join(state, host, "lib", "images")
	markers, err := filepath.Glob(filepath.Join(dir, basePrefix+"*.marker.qcow2"))
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	for _, marker := range markers {
		base, err := backingOf(marker)
		if err != nil {
			return nil, err
		}
		if base == "" {
			continue // libvirt lists a volume while it still makes it
		}
		file := filepath.Join(dir, filepath.Base(base))
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			continue
		}
		image := strings.Split(filepath.Base(marker), ".")[1]
		found[image] = append(found[image], file)
	}
	return found, nil
}

// backingOf reads from a qcow2 header which file it is built on, "" for none yet.
func backingOf(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	var header [20]byte
	if _, err := f.ReadAt(header[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	backing := make([]byte, binary.BigEndian.Uint32(header[16:])%4096)
	if _, err := f.ReadAt(backing, int64(binary.BigEndian.Uint64(header[8:])%mib)); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(backing), nil
}

func hashOf(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func sha256Of(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
