//go:build lab

package imagefaults_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// headRoom is what a look at an image's head never reaches: a fault behind it
	// meets a download.
	headRoom  = 64 * kib
	sendBytes = 64 * kib
	// sendPause after each of them makes 8 MiB/s: time enough to be hit.
	sendPause = 8 * time.Millisecond
)

// file is what the mirror has under one name.
type file struct {
	io.ReaderAt
	name string
	size int64
	// hurried files are sent as fast as they are taken.
	hurried bool
	version int // guarded by mirror.mu
}

// planned is a fault that waits for a request which it can hit.
type planned struct {
	fault
	// share, 0 to 1, is how much of the answer is sent before it strikes.
	share float64
	// act is what happens then, for faults that are none of the mirror's.
	act func()
}

// mirror serves files as mirrors do: with ETag, Range and If-Range, over
// redirects, and with each fault that is in its queue.
type mirror struct {
	host  string // address and port
	tally *tally

	mu    sync.Mutex
	files map[string]*file
	queue []planned
}

func newMirror(t *testing.T) *mirror {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mirror{host: listener.Addr().String(), tally: &tally{counts: map[string]int{}}, files: map[string]*file{}}
	server := &http.Server{Handler: m, ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	return m
}

// add publishes content and returns its URL, which holds secrets.
func (m *mirror) add(f *file) (url string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[f.name] = f
	return fmt.Sprintf("http://mirror:%s@%s/%s?signature=%s", secret, m.host, f.name, secret)
}

func (m *mirror) addBytes(name string, content []byte) (url string) {
	return m.add(&file{ReaderAt: bytes.NewReader(content), name: name, size: int64(len(content))})
}

// plan puts faults at the end of the queue.
func (m *mirror) plan(faults ...planned) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = append(m.queue, faults...)
}

// take returns the next fault, a harmless one without any.
func (m *mirror) take() planned {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) == 0 {
		return planned{fault: fault{serve: healthy}}
	}
	p := m.queue[0]
	m.queue = m.queue[1:]
	return p
}

func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/loop/") {
		w.Header().Set("Location", r.URL.Path)
		w.WriteHeader(http.StatusFound)
		return
	}
	m.mu.Lock()
	f, ok := m.files[path.Base(r.URL.Path)]
	m.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	p := m.take()
	a := &exchange{ResponseWriter: w, r: r, m: m, file: f, planned: p, from: m.from(r, f)}
	what := p.serve(a)
	switch {
	case p.name == "":
	case what.hit:
		m.tally.add(p.name)
	default: // it waits for the next request
		m.mu.Lock()
		m.queue = slices.Insert(m.queue, 0, p)
		m.mu.Unlock()
	}
	if what.cut {
		panic(http.ErrAbortHandler)
	}
}

// from is where a request wants to go on; 0 when it wants all, or another version.
func (m *mirror) from(r *http.Request, f *file) int64 {
	spec, ranged := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
	if match := r.Header.Get("If-Range"); !ranged || (match != "" && match != m.etag(f)) {
		return 0
	}
	from, _ := strconv.ParseInt(strings.TrimSuffix(spec, "-"), 10, 64)
	return from
}

func (m *mirror) etag(f *file) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf(`"%s-%d"`, f.name, f.version)
}

// outcome is what became of a fault: whether it hit, and whether the connection
// is to be cut.
type outcome struct{ hit, cut bool }

// exchange is one request and its answer.
type exchange struct {
	http.ResponseWriter
	planned

	r    *http.Request
	m    *mirror
	file *file
	from int64
}

// ranged reports whether the request asks for the rest of what it has.
func (a *exchange) ranged() bool { return a.from > 0 }

// head writes the head of a proper answer, for a file of that size.
func (a *exchange) head(size int64) {
	h := a.Header()
	h.Set("ETag", a.m.etag(a.file))
	h.Set("Content-Length", strconv.FormatInt(size-a.from, 10))
	if a.ranged() {
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", a.from, size-1, size))
		a.WriteHeader(http.StatusPartialContent)
	}
}

// strikeAt is where a fault strikes: behind the head, before the last byte.
func (a *exchange) strikeAt() int64 {
	at := a.from + headRoom + int64(a.share*float64(a.file.size-a.from))
	return max(min(at, a.file.size-1), a.from)
}

// send writes content from where the request wants it up to a byte. False when
// it was not taken.
func (a *exchange) send(content io.ReaderAt, upTo int64) bool {
	src, buf := io.NewSectionReader(content, a.from, upTo-a.from), make([]byte, sendBytes)
	for {
		n, err := src.Read(buf)
		if err != nil {
			return http.NewResponseController(a.ResponseWriter).Flush() == nil
		}
		if _, err := a.Write(buf[:n]); err != nil {
			return false
		}
		if !a.file.hurried {
			time.Sleep(sendPause)
		}
	}
}

// sendToStrike is a proper answer up to where the fault strikes. False when the
// client left before: one that looks at the head only is gone by then.
func (a *exchange) sendToStrike() bool {
	a.head(a.file.size)
	if !a.send(a.file, a.strikeAt()) {
		return false
	}
	time.Sleep(50 * time.Millisecond)
	return a.r.Context().Err() == nil
}

// hang waits for the client to give up, and reports whether it had patience
// before: one that was killed had none.
func (a *exchange) hang() bool {
	begun := time.Now()
	select {
	case <-a.r.Context().Done():
		return time.Since(begun) > stallLimit/2
	case <-time.After(time.Minute):
		return false
	}
}
