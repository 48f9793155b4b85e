package http

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/http/gen"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const testToken = "full-token-b5b0c7"

// fakeService answers as told and remembers what it was asked.
type fakeService struct {
	// err is what every call that can fail returns.
	err error
	// hook, when set, runs at the start of every call.
	hook func(ctx context.Context)

	created instance.Created
	page    instance.Page
	console []byte
	images  []instance.ImageStatus
	report  instance.Report

	mu       sync.Mutex
	calls    []string
	spec     instance.Spec
	patience time.Duration
	filter   instance.Filter
	id, uid  string
	maxBytes int64
	image    [3]string // name, host, identity
}

func (f *fakeService) enter(ctx context.Context, call string) error {
	f.mu.Lock()
	f.calls = append(f.calls, call)
	f.mu.Unlock()
	if f.hook != nil {
		f.hook(ctx)
	}
	return f.err
}

func (f *fakeService) Create(ctx context.Context, spec instance.Spec, patience time.Duration) (instance.Created, error) {
	f.spec, f.patience = spec, patience
	return f.created, f.enter(ctx, "Create")
}

func (f *fakeService) DryRun(ctx context.Context, spec instance.Spec) (instance.Plan, error) {
	f.spec = spec
	return instance.Plan{Host: "h1", NeededBytes: 3, AvailableBytes: 5, ImageState: instance.ImageAbsent}, f.enter(ctx, "DryRun")
}

func (f *fakeService) Get(ctx context.Context, id string) (instance.Instance, error) {
	f.id = id
	return testInstance(), f.enter(ctx, "Get")
}

func (f *fakeService) Delete(ctx context.Context, id, uid string) error {
	f.id, f.uid = id, uid
	return f.enter(ctx, "Delete")
}

func (f *fakeService) List(ctx context.Context, filter instance.Filter) (instance.Page, error) {
	f.filter = filter
	return f.page, f.enter(ctx, "List")
}

func (f *fakeService) Console(ctx context.Context, id string, maxBytes int64) ([]byte, error) {
	f.id, f.maxBytes = id, maxBytes
	return f.console, f.enter(ctx, "Console")
}

func (f *fakeService) Images(ctx context.Context, host string) ([]instance.ImageStatus, error) {
	f.image = [3]string{"", host, ""}
	return f.images, f.enter(ctx, "Images")
}

func (f *fakeService) PullImage(ctx context.Context, name, host string) error {
	f.image = [3]string{name, host, ""}
	return f.enter(ctx, "PullImage")
}

func (f *fakeService) RemoveImage(ctx context.Context, name, host, identity string) error {
	f.image = [3]string{name, host, identity}
	return f.enter(ctx, "RemoveImage")
}

func (f *fakeService) Check(ctx context.Context) instance.Report {
	_ = f.enter(ctx, "Check")
	return f.report
}

func (f *fakeService) Placements() []instance.Placement {
	_ = f.enter(context.Background(), "Placements")
	return []instance.Placement{{Name: "p1", Host: "h1", Image: "debian-13", Size: "small"}}
}

// called returns the names of the calls so far.
func (f *fakeService) called() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.calls...)
}

func testInstance() instance.Instance {
	return instance.Instance{
		ID: instance.ID{Host: "h1", Name: "proxy-1"}, UID: "u-1", Placement: "p1", Image: "debian-13", Size: "small",
		State: instance.Running, IP: netip.MustParseAddr("192.0.2.7"),
		Addresses: []instance.Address{
			{Addr: netip.MustParseAddr("192.0.2.7"), Source: instance.SourceAgent, MAC: "02:00:00:00:00:01"},
			{Addr: netip.MustParseAddr("2001:db8::7"), Source: instance.SourceLease, MAC: "02:00:00:00:00:01"},
		},
		CreatedAt: time.Date(2026, 11, 29, 10, 0, 0, 0, time.FixedZone("CET", 3600)),
		Tags:      map[string]string{"pool": "egress"},
	}
}

// tokenAuth knows one token.
type tokenAuth struct {
	token string
	p     Principal
}

func (a tokenAuth) Authenticate(_ context.Context, c Credentials) (Principal, bool, error) {
	return a.p, c.Token != "" && c.Token == a.token, nil
}

// lockedBuffer is a log that several goroutines may write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// harness is a server over a fake, with what it logged and counted.
type harness struct {
	handler  http.Handler
	service  *fakeService
	log      *lockedBuffer
	registry *prometheus.Registry
}

func newHarness(t *testing.T, service *fakeService, change ...func(*Options)) *harness {
	t.Helper()
	h := &harness{service: service, log: &lockedBuffer{}, registry: prometheus.NewRegistry()}
	o := Options{
		Service:  service,
		Auth:     []Authenticator{tokenAuth{testToken, Principal{Name: "operator", Role: RoleFull}}},
		Log:      slog.New(slog.NewJSONHandler(h.log, &slog.HandlerOptions{Level: instance.LevelDetail})),
		Registry: h.registry,
		Build:    Build{Version: "v0.0.0-test", Commit: "abc", BuiltAt: "2026-11-29T08:00:00Z"},
	}
	for _, c := range change {
		c(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	h.handler = s.Handler()
	return h
}

// request builds one with the test's token.
func request(method, target, body string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), method, target, strings.NewReader(body))
	if body == "" {
		r.Body = http.NoBody
		r.ContentLength = 0
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Authorization", "Bearer "+testToken)
	return r
}

func (h *harness) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	return w
}

// lines returns the request lines logged so far.
func (h *harness) lines(t *testing.T) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for text := range strings.Lines(h.log.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("log line %q: %v", text, err)
		}
		if line["msg"] == "request" {
			lines = append(lines, line)
		}
	}
	return lines
}

func problemIn(t *testing.T, w *httptest.ResponseRecorder) gen.Problem {
	t.Helper()
	if got, want := w.Header().Get("Content-Type"), "application/problem+json"; got != want {
		t.Fatalf("Content-Type = %q, want %q; body %q", got, want, w.Body.String())
	}
	var p gen.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("problem %q: %v", w.Body.String(), err)
	}
	if p.Status != w.Code {
		t.Errorf("problem says status %d, the answer has %d", p.Status, w.Code)
	}
	return p
}

// wantProblem checks status, kind and reason.
func wantProblem(t *testing.T, w *httptest.ResponseRecorder, status int, reason instance.Reason) gen.Problem {
	t.Helper()
	p := problemIn(t, w)
	if w.Code != status || p.Reason != string(reason) || p.Kind != gen.Kind(reason.Kind()) {
		t.Errorf("got %d %s %s, want %d %s %s; body %s", w.Code, p.Kind, p.Reason, status, reason.Kind(), reason, w.Body.String())
	}
	return p
}
