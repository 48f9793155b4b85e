package client

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

const (
	testID    = "hosts/h1/domains/proxy-1"
	testBody  = `{"id":"hosts/h1/domains/proxy-1","name":"proxy-1","uid":"u","host":"h1","placement":"p","image":"i","size":"s","state":"Running","ip":"192.0.2.1","addresses":[],"tags":{"pool":"egress"}}`
	testList  = `{"items":[` + testBody + `],"unreachable":[]}`
	testCheck = `{"status":"ok","hosts":[]}`
)

// reply is one answer of a scripted server.
type reply struct {
	status      int
	contentType string
	body        string
	header      map[string]string
	// cut ends the connection: before the head, or within the body when there is one.
	cut bool
}

func jsonReply(status int, body string) reply {
	return reply{status: status, contentType: "application/json", body: body}
}

func problemReply(status int, kind, reason string) reply {
	return reply{
		status: status, contentType: "application/problem+json",
		body: fmt.Sprintf(`{"type":"t","title":"T","status":%d,"detail":"why","instance":"req-1","kind":%q,"reason":%q}`, status, kind, reason),
	}
}

// script is a server that gives one reply after another, the last one again and
// again, and keeps what it was sent.
type script struct {
	replies []reply

	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	n := min(len(s.requests), len(s.replies)-1)
	s.requests = append(s.requests, r)
	s.bodies = append(s.bodies, string(body))
	s.mu.Unlock()
	a := s.replies[n]
	for k, v := range a.header {
		w.Header().Set(k, v)
	}
	if a.contentType != "" {
		w.Header().Set("Content-Type", a.contentType)
	}
	if a.cut {
		if a.body != "" {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, a.body)
		}
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

func (s *script) sent() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*http.Request(nil), s.requests...)
}

// body returns what the nth request carried.
func (s *script) body(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies[n]
}

// newProvider returns a Provider of a server that gives the replies, with
// pauses too short to notice.
func newProvider(t *testing.T, change func(*Options), replies ...reply) (*Provider, *script) {
	t.Helper()
	s := &script{replies: replies}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	o := Options{Name: "edge", Server: server.URL}
	if change != nil {
		change(&o)
	}
	p, err := NewProvider(o)
	if err != nil {
		t.Fatal(err)
	}
	p.pause = time.Millisecond
	t.Cleanup(p.Close)
	return p, s
}

func writeToken(t *testing.T, path, token string, age time.Duration) {
	t.Helper()
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-age)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

func tokenPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "token")
}
