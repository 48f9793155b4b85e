package http

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// docsPage is the API reference: a renderer that the browser runs over the
// contract. Nothing of it comes from anywhere but this program.
type docsPage struct {
	page *page
	// renderer is Redoc's script, compressed.
	renderer []byte
}

func newDocsPage() (*docsPage, error) {
	// The renderer makes style elements as it goes, whose text nobody knows
	// beforehand, and searches in a worker that it makes of its own text.
	p, err := newPage("docs", nil, "script-src 'self' {script}", "worker-src blob:", "style-src 'unsafe-inline'")
	if err != nil {
		return nil, err
	}
	renderer, err := pageFiles.ReadFile("pages/redoc.standalone.js.gz")
	if err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	return &docsPage{page: p, renderer: renderer}, nil
}

// servePage serves GET /docs.
func (d *docsPage) servePage(w http.ResponseWriter, r *http.Request) { d.page.serve(w, r, nil) }

// serveRenderer serves GET /docs/redoc.js, compressed for those who can read it.
func (d *docsPage) serveRenderer(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Vary", "Accept-Encoding")
	script := d.renderer
	if acceptsGzip(r.Header) {
		h.Set("Content-Encoding", "gzip")
	} else {
		var err error
		if script, err = decompress(d.renderer); err != nil {
			fail(w, r, fmt.Errorf("read the renderer: %w", err))
			return
		}
	}
	respondBytes(w, r, http.StatusOK, "text/javascript; charset=utf-8", script)
}

func decompress(data []byte) ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(zr)
}

// acceptsGzip reports whether the caller names gzip among the encodings that it
// reads, without a weight of nothing.
func acceptsGzip(h http.Header) bool {
	for _, line := range h.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(line, ",") {
			name, weight, _ := strings.Cut(coding, ";")
			if strings.EqualFold(strings.TrimSpace(name), "gzip") {
				return !isZeroWeight(weight)
			}
		}
	}
	return false
}

// isZeroWeight reports whether a weight such as "q=0.5" is that of something unwanted.
func isZeroWeight(weight string) bool {
	q, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(weight)), "q=")
	if !ok {
		return false
	}
	value, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
	return err == nil && value == 0
}
