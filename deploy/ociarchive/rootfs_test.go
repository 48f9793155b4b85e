//go:build chart

package main

import (
	"bytes"
	"crypto/x509"
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// rootfs runs deploy/rootfs.
func rootfs(t *testing.T, image, arch string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "root")
	cmd := exec.CommandContext(t.Context(), "../rootfs", image, dir)
	cmd.Env = append(os.Environ(), "GOARCH="+arch, "VERSION=1.2.3", "REVISION=abc")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// TestRootfs_isSmallAndStatic looks at what really is in the image.
func TestRootfs_isSmallAndStatic(t *testing.T) {
	root := rootfs(t, "kvm2d", "amd64")
	var files []string
	var size int64
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		files, size = append(files, path), size+info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(files, " "); got != "LICENSE THIRD-PARTY-LICENSES etc/ssl/certs/ca-certificates.crt kvm2d" {
		t.Errorf("got the files %s, want no shell and nothing else", got)
	}
	if size >= 32<<20 {
		t.Errorf("got %d bytes, want less than 32 MiB", size)
	}
	certificates, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil || !x509.NewCertPool().AppendCertsFromPEM(certificates) {
		t.Errorf("got %v and no certificate", err)
	}
	binary, err := elf.Open(filepath.Join(root, "kvm2d"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = binary.Close() }()
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the binary wants a dynamic linker")
		}
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, "kvm2d"), "version").Output()
	if err != nil || !strings.HasPrefix(string(out), "kvm2d 1.2.3 ") || !strings.Contains(string(out), "revision abc\n") {
		t.Errorf("got %v: %s, want version and revision of the build", err, out)
	}
}

// TestRootfs_sameTreeSameBytes builds both images twice, and looks at nothing but bytes.
func TestRootfs_sameTreeSameBytes(t *testing.T) {
	for image, program := range map[string]string{"kvm2d": "kvm2d", "conformance": "conformance"} {
		var programs [2][]byte
		for i := range programs {
			var err error
			if programs[i], err = os.ReadFile(filepath.Join(rootfs(t, image, "amd64"), program)); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(programs[0], programs[1]) {
			t.Errorf("two builds of %s differ", image)
		}
	}
}

func TestRootfs_refusesOtherImages(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "../rootfs", "other", filepath.Join(t.TempDir(), "root")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no image other") {
		t.Errorf("got %v: %s", err, out)
	}
}
