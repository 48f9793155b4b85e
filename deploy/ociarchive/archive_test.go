package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// file is an entry of a tar archive.
type file struct {
	Mode    int64
	UID     int
	Time    time.Time
	Content string
}

// untar reads all of an archive, and checks that no name is there twice.
func untar(t *testing.T, archive []byte) map[string]file {
	t.Helper()
	out := map[string]file{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := out[header.Name]; twice {
			t.Errorf("%s is there twice", header.Name)
		}
		out[header.Name] = file{header.Mode, header.Uid, header.ModTime.UTC(), string(content)}
	}
}

// decode reads JSON.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var out T
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// opened is an archive as an engine reads it.
type opened struct {
	Files    map[string]file
	Manifest descriptor
	Config   struct {
		Architecture, OS string
		Created          time.Time
		Config           imageConfig
		RootFS           struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	Layer map[string]file
}

// blob returns a blob, and checks its digest and size.
func (o *opened) blob(t *testing.T, d descriptor) string {
	t.Helper()
	content := o.Files[blobPath(d.Digest)].Content
	if got := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content))); got != d.Digest || len(content) != d.Size {
		t.Errorf("blob %s: got digest %s and %d bytes, want %d", d.Digest, got, len(content), d.Size)
	}
	return content
}

// open follows an archive from its index to its files.
func open(t *testing.T, path string) *opened {
	t.Helper()
	archive, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o := &opened{Files: untar(t, archive)}
	index := decode[struct{ Manifests []descriptor }](t, o.Files["index.json"].Content)
	if len(index.Manifests) != 1 {
		t.Fatalf("got %d manifests, want 1", len(index.Manifests))
	}
	o.Manifest = index.Manifests[0]
	manifest := decode[struct {
		Config descriptor
		Layers []descriptor
	}](t, o.blob(t, o.Manifest))
	if err := json.Unmarshal([]byte(o.blob(t, manifest.Config)), &o.Config); err != nil || len(manifest.Layers) != 1 {
		t.Fatalf("got %v and %d layers, want 1", err, len(manifest.Layers))
	}
	layer, err := gzip.NewReader(bytes.NewReader([]byte(o.blob(t, manifest.Layers[0]))))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(layer)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("sha256:%x", sha256.Sum256(content)); !cmp.Equal(o.Config.RootFS.DiffIDs, []string{want}) {
		t.Errorf("got diff ids %v, want %s", o.Config.RootFS.DiffIDs, want)
	}
	o.Layer = untar(t, content)
	list := decode[[]struct {
		Config   string
		RepoTags []string
		Layers   []string
	}](t, o.Files["manifest.json"].Content)
	if len(list) != 1 || list[0].Config != blobPath(manifest.Config.Digest) || !cmp.Equal(list[0].Layers, []string{blobPath(manifest.Layers[0].Digest)}) {
		t.Errorf("docker's list is %+v, want what the index has", list)
	}
	return o
}

// someRoot is a folder as deploy/rootfs makes it.
func someRoot(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	if err := os.MkdirAll(filepath.Join(root, "etc", "ssl"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"kvm2d": 0o755, "etc/ssl/certs": 0o644} {
		if err := os.WriteFile(filepath.Join(root, name), []byte("content of "+name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return root
}

func archiveOf(t *testing.T, root, target, name string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "image.tar")
	err := run([]string{
		"-dockerfile", "../Dockerfile", "-target", target, "-root", root, "-name", name, "-arch", "arm64", "-created", "1000000000",
		"-arg", "VERSION=1.2.3", "-arg", "REVISION=abc", "-out", out,
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestArchive_isTheStageOfTheDockerfile goes by the project's own Dockerfile.
func TestArchive_isTheStageOfTheDockerfile(t *testing.T) {
	got := open(t, archiveOf(t, someRoot(t), "kvm2d", "localhost/kvm2d:1.2.3"))
	labels := map[string]string{
		"org.opencontainers.image.title": "kvm2d", "org.opencontainers.image.version": "1.2.3", "org.opencontainers.image.revision": "abc",
		"org.opencontainers.image.licenses": "Apache-2.0", "org.opencontainers.image.source": "https://gitea.home.hrajfrisbee.cz/kacerr/kvm2d",
		"org.opencontainers.image.description": "Small virtual machines on remote libvirt hosts, over REST",
	}
	want := imageConfig{
		User: "65532:65532", ExposedPorts: map[string]struct{}{"8080/tcp": {}, "9090/tcp": {}}, WorkingDir: "/",
		Entrypoint: []string{"/kvm2d"}, Cmd: []string{"serve", "--config", "/etc/kvm2d/kvm2d.yaml"}, Labels: labels,
	}
	if diff := cmp.Diff(want, got.Config.Config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	when := time.Unix(1000000000, 0).UTC()
	if got.Config.Architecture != "arm64" || got.Config.OS != "linux" || !got.Config.Created.Equal(when) {
		t.Errorf("got %s/%s of %v, want linux/arm64 of %v", got.Config.OS, got.Config.Architecture, got.Config.Created, when)
	}
	files := map[string]file{
		"etc/": {0o755, 0, when, ""}, "etc/ssl/": {0o755, 0, when, ""}, "etc/ssl/certs": {0o644, 0, when, "content of etc/ssl/certs"},
		"kvm2d": {0o755, 0, when, "content of kvm2d"}, "tmp/": {0o1777, 0, when, ""},
	}
	if diff := cmp.Diff(files, got.Layer); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	annotations := map[string]string{"io.containerd.image.name": "localhost/kvm2d:1.2.3", "org.opencontainers.image.ref.name": "1.2.3"}
	if diff := cmp.Diff(annotations, got.Manifest.Annotations); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestArchive_sameInputSameBytes(t *testing.T) {
	var archives [2][]byte
	for i := range archives {
		var err error
		if archives[i], err = os.ReadFile(archiveOf(t, someRoot(t), "conformance", "localhost/a:b")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("the bytes differ")
	}
}

func TestWrite_refusesWhatIsNoFile(t *testing.T) {
	root := someRoot(t)
	if err := os.Symlink("/etc/passwd", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "image.tar")
	if err := (image{Name: "a:b"}).write(root, out); err == nil {
		t.Error("a symbolic link was taken")
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("there is an archive all the same")
	}
}
