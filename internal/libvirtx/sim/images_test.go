package sim_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

const imageURL = "http://images.sim/debian.qcow2"

// fetched is an answer with its body read.
type fetched struct {
	status int
	length int64
	header http.Header
	body   []byte
}

// fetch asks for a URL with headers given in pairs.
func fetch(t *testing.T, images sim.Images, method, url string, headers ...string) fetched {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Client{Transport: images}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fetched{status: resp.StatusCode, length: resp.ContentLength, header: resp.Header, body: b}
}

func TestImages_wholeImage(t *testing.T) {
	images := sim.Images{FileBytes: 1_000_003, VirtualBytes: 5 << 30}
	resp := fetch(t, images, http.MethodGet, imageURL)
	got := resp.body
	if resp.status != http.StatusOK || resp.length != 1_000_003 || len(got) != 1_000_003 {
		t.Fatalf("got %d, length %d, %d bytes", resp.status, resp.length, len(got))
	}
	sum := sha256.Sum256(got)
	if want := images.SHA256("/debian.qcow2"); hex.EncodeToString(sum[:]) != want {
		t.Errorf("checksum: got %x, want %s", sum, want)
	}
	other := fetch(t, images, http.MethodGet, "http://images.sim/other.qcow2")
	if bytes.Equal(got, other.body) {
		t.Error("two images are the same")
	}

	r := newRig(t, sim.Options{})
	v := r.volume("base", "qcow2", 1<<20, "")
	r.must(r.conn.StorageVolUpload(t.Context(), v, bytes.NewReader(got), 0, uint64(len(got))))
	if info, _ := r.host.Volume("base"); info.Format != "qcow2" || info.Capacity != 5<<30 || info.Backing != "" {
		t.Errorf("the host makes of it %+v", info)
	}
}

func TestImages_ranges(t *testing.T) {
	images := sim.Images{FileBytes: 100_000}
	whole := fetch(t, images, http.MethodGet, imageURL)
	all, etag := whole.body, whole.header.Get("Etag")
	rows := []struct {
		name     string
		headers  []string
		status   int
		from, to int
		contents string
	}{
		{"open end", []string{"Range", "bytes=60001-"}, 206, 60001, 100_000, "bytes 60001-99999/100000"},
		{"inside the header", []string{"Range", "bytes=4-9"}, 206, 4, 10, "bytes 4-9/100000"},
		{"over the header's end", []string{"Range", "bytes=100-1000"}, 206, 100, 1001, "bytes 100-1000/100000"},
		{"cut at the end", []string{"Range", "bytes=99990-200000"}, 206, 99990, 100_000, "bytes 99990-99999/100000"},
		{"holds", []string{"Range", "bytes=5-", "If-Range", etag}, 206, 5, 100_000, "bytes 5-99999/100000"},
		{"changed since", []string{"Range", "bytes=5-", "If-Range", `"other"`}, 200, 0, 100_000, ""},
		{"a suffix, not known here", []string{"Range", "bytes=-5"}, 200, 0, 100_000, ""},
		{"nonsense", []string{"Range", "lines=1-2"}, 200, 0, 100_000, ""},
		{"behind the end", []string{"Range", "bytes=100000-"}, 416, 0, 0, "bytes */100000"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got := fetch(t, images, http.MethodGet, imageURL, row.headers...)
			if got.status != row.status || !bytes.Equal(got.body, all[row.from:row.to]) {
				t.Errorf("got %d with %d bytes, want %d with bytes %d to %d", got.status, len(got.body), row.status, row.from, row.to)
			}
			if diff := cmp.Diff(row.contents, got.header.Get("Content-Range")); diff != "" {
				t.Errorf("Content-Range (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImages_otherRequests(t *testing.T) {
	head := fetch(t, sim.Images{}, http.MethodHead, imageURL)
	if head.status != http.StatusOK || head.length != 3<<20 || len(head.body) != 0 {
		t.Errorf("HEAD: got %d, length %d, %d bytes", head.status, head.length, len(head.body))
	}
	if got := fetch(t, sim.Images{}, http.MethodGet, "http://images.sim/notes.txt").status; got != http.StatusNotFound {
		t.Errorf("what is no image: got %d", got)
	}
	if got := fetch(t, sim.Images{}, http.MethodPost, imageURL).status; got != http.StatusMethodNotAllowed {
		t.Errorf("POST: got %d", got)
	}
	if got := (sim.Images{}).SHA256("/notes.txt"); got != "" {
		t.Errorf("checksum of what is no image: got %s", got)
	}
}

func TestImages_cancelledMidway(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, imageURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (sim.Images{}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.CopyN(io.Discard, resp.Body, 1000); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("reading on: got %v, want cancelled", err)
	}
	again, err := (sim.Images{}).RoundTrip(req)
	if again != nil {
		_ = again.Body.Close()
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a request that was given up: got %v, want cancelled", err)
	}
}
