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
	"io/fs"
	"os"
	"strings"
	"time"
)

// image is an image of one layer.
type image struct {
	// Name is REGISTRY/name:tag, as Kubernetes looks for it.
	Name         string
	Config       imageConfig
	Architecture string
	OS           string
	// Created is the time of the image and of all its files.
	Created time.Time
}

// descriptor points to a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// The media types of the OCI's image specification.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// write makes the image with the content of the folder root and writes it to the
// file out.
func (i image) write(root, out string) error {
	layer, diffID, err := layerOf(root, i.Created)
	if err != nil {
		return fmt.Errorf("read %s: %w", root, err)
	}
	var archive bytes.Buffer
	if err := i.archive(&archive, layer, diffID); err != nil {
		return err
	}
	// Whoever looks at out meanwhile sees the old archive or the new one.
	if err := os.WriteFile(out+".new", archive.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(out+".new", out)
}

// layerOf packs a folder. Owners, times and the order are always the same.
// diffID is the digest of the layer before its compression.
func layerOf(root string, created time.Time) (layer []byte, diffID string, err error) {
	var packed bytes.Buffer
	sum := sha256.New()
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, "", err
	}
	w := tar.NewWriter(io.MultiWriter(zip, sum))
	err = fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		return addFile(w, root, path, entry, created)
	})
	if err := errors.Join(err, w.Close(), zip.Close()); err != nil {
		return nil, "", err
	}
	return packed.Bytes(), fmt.Sprintf("sha256:%x", sum.Sum(nil)), nil
}

func addFile(w *tar.Writer, root, path string, entry fs.DirEntry, created time.Time) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	header := &tar.Header{Name: path, Typeflag: tar.TypeReg, Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: created, Format: tar.FormatUSTAR}
	switch {
	case info.IsDir():
		header.Name, header.Typeflag, header.Size = path+"/", tar.TypeDir, 0
		if info.Mode()&fs.ModeSticky != 0 {
			header.Mode |= 0o1000
		}
		return w.WriteHeader(header)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is neither a file nor a folder", path)
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	content, err := fs.ReadFile(os.DirFS(root), path)
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}

// archive writes the whole archive: blobs, the OCI's index, and docker's list.
func (i image) archive(out io.Writer, layer []byte, diffID string) error {
	a := &archiveWriter{tar: tar.NewWriter(out), created: i.Created}
	platform := platform{Architecture: i.Architecture, OS: i.OS}
	config := a.blob(typeConfig, mustJSON(map[string]any{
		"architecture": platform.Architecture, "os": platform.OS, "created": i.Created, "config": i.Config,
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{diffID}},
		"history": []map[string]any{{"created": i.Created, "created_by": "COPY /out /"}},
	}))
	content := a.blob(typeLayer, layer)
	manifest := a.blob(typeManifest, mustJSON(map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": []descriptor{content},
	}))
	manifest.Platform = &platform
	manifest.Annotations = map[string]string{
		"io.containerd.image.name":          i.Name,
		"org.opencontainers.image.ref.name": i.Name[strings.LastIndex(i.Name, ":")+1:],
	}
	a.file("index.json", mustJSON(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{manifest}}))
	a.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	a.file("manifest.json", mustJSON([]map[string]any{{
		"Config": blobPath(config.Digest), "RepoTags": []string{i.Name}, "Layers": []string{blobPath(content.Digest)},
	}}))
	return errors.Join(a.err, a.tar.Close())
}

// archiveWriter writes files until the first error, which it keeps.
type archiveWriter struct {
	tar     *tar.Writer
	created time.Time
	err     error
}

func (a *archiveWriter) file(name string, content []byte) {
	if a.err != nil {
		return
	}
	header := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content)), ModTime: a.created, Format: tar.FormatUSTAR}
	if a.err = a.tar.WriteHeader(header); a.err == nil {
		_, a.err = a.tar.Write(content)
	}
}

// blob writes content under its digest.
func (a *archiveWriter) blob(mediaType string, content []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(content)), Size: len(content)}
	a.file(blobPath(d.Digest), content)
	return d
}

func blobPath(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }

// mustJSON encodes what is made of strings and numbers, which cannot fail.
func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
