package image

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// site serves one file the way a good mirror does, but for the faults that a
// test plants.
type site struct {
	content []byte
	etag    string
	// fault, when set, may answer request n (counted from 1) itself and returns true then.
	fault func(n int, w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	requests []http.Header
	targets  []string
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Header.Clone())
	s.targets = append(s.targets, r.URL.Path)
	n := len(s.requests)
	s.mu.Unlock()
	if s.fault == nil || !s.fault(n, w, r) {
		s.serve(w, r, int64(len(s.content)))
	}
}

// serve answers properly, Range and If-Range included, but sends no byte past upTo.
func (s *site) serve(w http.ResponseWriter, r *http.Request, upTo int64) {
	from := int64(0)
	if spec, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		if match := r.Header.Get("If-Range"); match == "" || match == s.etag {
			from, _ = strconv.ParseInt(strings.TrimSuffix(spec, "-"), 10, 64)
		}
	}
	total := int64(len(s.content))
	if s.etag != "" {
		w.Header().Set("ETag", s.etag)
	}
	w.Header().Set("Content-Length", strconv.FormatInt(total-from, 10))
	if from > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, total-1, total))
		w.WriteHeader(http.StatusPartialContent)
	}
	_, err := w.Write(s.content[from:max(from, min(upTo, total))])
	if upTo < total || err != nil {
		panic(http.ErrAbortHandler)
	}
}

func (s *site) requestCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

func (s *site) header(n int) http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[n-1]
}

// cutAt ends the body of request n at a byte of the content.
func (s *site) cutAt(n int, upTo int64) func(int, http.ResponseWriter, *http.Request) bool {
	return func(got int, w http.ResponseWriter, r *http.Request) bool {
		if got != n {
			return false
		}
		s.serve(w, r, upTo)
		return true
	}
}

// status answers every request with a status.
func status(code int) func(int, http.ResponseWriter, *http.Request) bool {
	return func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(code)
		return true
	}
}

// wire is an http.RoundTripper that runs a handler in memory, so that tests may
// use a fake clock, which knows no sockets.
type wire struct{ handler http.Handler }

func (t wire) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	r, w := io.Pipe()
	conn := &wireWriter{pipe: w, header: http.Header{}, ready: make(chan struct{})}
	gone := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
	go func() {
		defer close(gone)
		defer stop()
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // a panic's value
				panic(p)
			}
			conn.end()
		}()
		t.handler.ServeHTTP(conn, req.Clone(ctx))
	}()
	select {
	case <-conn.ready:
	case <-ctx.Done():
		cancel()
		<-gone
		return nil, req.Context().Err()
	}
	length := int64(-1)
	if cl := conn.header.Get("Content-Length"); cl != "" {
		length, _ = strconv.ParseInt(cl, 10, 64)
	}
	return &http.Response{
		StatusCode: conn.status, Header: conn.header, ContentLength: length, Request: req, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: &wireBody{PipeReader: r, close: func() { cancel(); _ = r.Close(); <-gone }},
	}, nil
}

type wireBody struct {
	*io.PipeReader
	close func()
}

func (b *wireBody) Close() error {
	b.close()
	return nil
}

type wireWriter struct {
	pipe   *io.PipeWriter
	header http.Header
	status int
	sent   int64
	ready  chan struct{}
}

func (w *wireWriter) Header() http.Header { return w.header }

func (w *wireWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.header = w.header.Clone()
		close(w.ready)
	}
}

func (w *wireWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	n, err := w.pipe.Write(p)
	w.sent += int64(n)
	return n, err
}

// end closes the body, as cut off when less was sent than promised.
func (w *wireWriter) end() {
	w.WriteHeader(http.StatusOK)
	if cl := w.header.Get("Content-Length"); cl != "" && cl != strconv.FormatInt(w.sent, 10) {
		_ = w.pipe.CloseWithError(io.ErrUnexpectedEOF)
		return
	}
	_ = w.pipe.Close()
}

// hang blocks until the client leaves.
func hang(r *http.Request) { <-r.Context().Done() }

// trickle sends b in pieces, a pause before each.
func trickle(ctx context.Context, w io.Writer, b []byte, pieces int, pause time.Duration) error {
	size := len(b)/pieces + 1
	for len(b) > 0 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		n := min(size, len(b))
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

var errPlanted = errors.New("planted fault")

// qcow2Bytes makes a file of a valid qcow2 header, tables, and noise up to size.
func qcow2Bytes(tb testing.TB, virtualBytes int64, size int) []byte {
	tb.Helper()
	const cluster = 64 << 10
	b := make([]byte, max(size, 4*cluster))
	state := uint32(size)*2654435761 + 1
	for i := range b {
		state = state*1664525 + 1013904223
		b[i] = byte(state >> 24)
	}
	head := b[:cluster]
	clear(head)
	copy(head, qcow2Magic)
	be := binary.BigEndian
	be.PutUint32(head[4:], 3)
	be.PutUint32(head[20:], 16)
	be.PutUint64(head[24:], uint64(virtualBytes))
	be.PutUint32(head[36:], uint32((virtualBytes+(512<<20)-1)/(512<<20)))
	be.PutUint64(head[40:], 3*cluster)
	be.PutUint64(head[48:], cluster)
	be.PutUint32(head[56:], 1)
	be.PutUint32(head[96:], 4)
	be.PutUint32(head[100:], 104)
	return b
}

// rawBytes makes a raw disk with an MBR.
func rawBytes(size int) []byte {
	b := make([]byte, size)
	for i := 1024; i < size; i += 7 {
		b[i] = byte(i)
	}
	b[510], b[511] = 0x55, 0xAA
	b[446] = 0x80
	return b
}
