package http

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// hold starts n requests that stay in the service until release is called,
// which waits for all of them.
func hold(t *testing.T, h *harness, n int) (release func()) {
	t.Helper()
	entered := make(chan struct{})
	gate := make(chan struct{})
	h.service.hook = func(context.Context) {
		entered <- struct{}{}
		<-gate
	}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { h.do(request(http.MethodPost, "/images/debian-13/pull", "")) })
		<-entered
	}
	h.service.hook = nil
	return func() {
		close(gate)
		wg.Wait()
	}
}

func TestLimits_overloadIsToldAtOnce(t *testing.T) {
	h := newHarness(t, &fakeService{}, func(o *Options) { o.MaxRequests, o.MaxRequestsPerCaller = 2, 2 })
	release := hold(t, h, 2)
	w := h.do(request(http.MethodGet, "/version", ""))
	wantProblem(t, w, http.StatusServiceUnavailable, instance.ReasonOverloaded)
	if got := w.Header().Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After = %q", got)
	}
	release()
	if w := h.do(request(http.MethodGet, "/version", "")); w.Code != 200 {
		t.Errorf("after the load: %d", w.Code)
	}
}

func TestLimits_oneCallerLeavesRoomForOthers(t *testing.T) {
	other := tokenAuth{"other", Principal{Name: "viewer", Role: RoleRead}}
	h := newHarness(t, &fakeService{}, func(o *Options) { o.MaxRequests = 4; o.Auth = append(o.Auth, other) })
	release := hold(t, h, 3)
	wantProblem(t, h.do(request(http.MethodGet, "/version", "")), http.StatusTooManyRequests, instance.ReasonTooManyRequests)
	r := request(http.MethodGet, "/version", "")
	r.Header.Set("Authorization", "Bearer other")
	if w := h.do(r); w.Code != 200 {
		t.Errorf("another caller: %d", w.Code)
	}
	release()
	if w := h.do(request(http.MethodGet, "/version", "")); w.Code != 200 {
		t.Errorf("after the load: %d", w.Code)
	}
}

func TestLimits_panicGivesItsSlotBack(t *testing.T) {
	h := newHarness(t, &fakeService{hook: func(context.Context) { panic("broke") }}, func(o *Options) { o.MaxRequests = 1 })
	for range 3 {
		wantProblem(t, h.do(request(http.MethodGet, "/images", "")), http.StatusInternalServerError, instance.ReasonInternal)
	}
}

func TestBody_tooLarge(t *testing.T) {
	h := newHarness(t, &fakeService{created: instance.Created{Instance: testInstance()}}, func(o *Options) { o.MaxBodyBytes = 100 })
	body := func(n int) string {
		const frame = `{"name":"a","placement":"p","cloudInit":""}`
		return strings.Replace(frame, `""`, `"`+strings.Repeat("x", n-len(frame))+`"`, 1)
	}
	if w := h.do(request(http.MethodPost, "/instances", body(100))); w.Code != 200 {
		t.Errorf("100 bytes: %d %s", w.Code, w.Body)
	}
	w := h.do(request(http.MethodPost, "/instances", body(101)))
	wantProblem(t, w, http.StatusRequestEntityTooLarge, instance.ReasonBodyTooLarge)
	r := request(http.MethodPost, "/instances", body(101))
	r.ContentLength = -1 // chunked
	wantProblem(t, h.do(r), http.StatusRequestEntityTooLarge, instance.ReasonBodyTooLarge)
	// What an operation without a body is sent does not matter.
	if w := h.do(request(http.MethodPost, "/images/a/pull", strings.Repeat("x", 5000))); w.Code != 202 {
		t.Errorf("a body nobody asked for: %d", w.Code)
	}
}

// listen serves h on a real listener as cmd does, until the test ends.
func listen(t *testing.T, h http.Handler, base context.Context) string { //nolint:revive // the context is data here
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewListenerServer(base, h, slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

func dial(t *testing.T, addr, head string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, head); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

func head(method, target string, length int) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		method, target, testToken, length)
}

// readAnswer reads one answer to its end.
func readAnswer(t *testing.T, r *bufio.Reader) (status int, body string) {
	t.Helper()
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("read answer: %v", err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("read answer's body: %v", err)
	}
	return res.StatusCode, string(b)
}

func TestBody_slowIsCut(t *testing.T) {
	h := newHarness(t, &fakeService{}, func(o *Options) { o.BodyTimeout = 50 * time.Millisecond })
	addr := listen(t, h.handler, context.Background())
	for target, want := range map[string]int{
		"POST /instances": http.StatusGatewayTimeout, "DELETE /instances/hosts/h1/domains/a": http.StatusBadRequest, "POST /nope": http.StatusNotFound,
	} {
		method, path, _ := strings.Cut(target, " ")
		_, r := dial(t, addr, head(method, path, 100)+`{"name":`)
		status, _ := readAnswer(t, r)
		if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the connection stays open: %v", target, err)
		}
		if status != want {
			t.Errorf("%s: got %d, want %d", target, status, want)
		}
	}
	if got := h.service.called(); len(got) != 0 {
		t.Errorf("the service was called: %v", got)
	}
}

func TestListenerServer_answersForTheWholeServerAreOurs(t *testing.T) {
	h := newHarness(t, &fakeService{})
	_, r := dial(t, listen(t, h.handler, context.Background()), "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+testToken+"\r\n\r\n")
	if status, body := readAnswer(t, r); status != http.StatusNotFound || !strings.Contains(body, `"RouteNotFound"`) {
		t.Errorf("got %d %s", status, body)
	}
}

// TestBody_limitEndsWithTheBody: a create may work longer than its body had.
func TestBody_limitEndsWithTheBody(t *testing.T) {
	service := &fakeService{created: instance.Created{Instance: testInstance()}}
	service.hook = func(ctx context.Context) {
		select {
		case <-ctx.Done():
			service.err = ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	h := newHarness(t, service, func(o *Options) { o.BodyTimeout = 50 * time.Millisecond })
	addr := listen(t, h.handler, context.Background())
	const body = `{"name":"a","placement":"p"}`
	c, r := dial(t, addr, head("POST", "/instances", len(body))+body)
	if status, body := readAnswer(t, r); status != http.StatusOK {
		t.Errorf("got %d %s", status, body)
	}
	if _, err := io.WriteString(c, head("GET", "/version", 0)); err != nil {
		t.Fatal(err)
	}
	if status, _ := readAnswer(t, r); status != http.StatusOK {
		t.Errorf("next request on the connection: %d", status)
	}
}

// TestClientLeaves_endsItsRequest: whether or not the operation reads a body.
func TestClientLeaves_endsItsRequest(t *testing.T) {
	for _, target := range []string{"POST /instances", "DELETE /instances/hosts/h1/domains/a", "GET /images"} {
		t.Run(target, func(t *testing.T) {
			entered := make(chan struct{})
			service := &fakeService{err: context.Canceled, hook: func(ctx context.Context) {
				close(entered)
				<-ctx.Done()
			}}
			h := newHarness(t, service)
			finished := make(chan struct{})
			addr := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.handler.ServeHTTP(w, r)
				close(finished)
			}), context.Background())
			const body = `{"name":"a","placement":"p"}`
			method, path, _ := strings.Cut(target, " ")
			c, _ := dial(t, addr, head(method, path, len(body))+body)
			<-entered
			_ = c.Close()
			<-finished
			if line := h.lines(t)[0]; line["status"] != 499.0 || line["outcome"] != "client left" {
				t.Errorf("line %v", line)
			}
		})
	}
}

func TestBody_clientLeavesWithinIt(t *testing.T) {
	h := newHarness(t, &fakeService{})
	finished := make(chan struct{})
	addr := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.handler.ServeHTTP(w, r)
		close(finished)
	}), context.Background())
	c, _ := dial(t, addr, head("POST", "/instances", 100)+`{"name":`)
	_ = c.Close()
	<-finished
	if line := h.lines(t)[0]; line["status"] != 499.0 {
		t.Errorf("line %v", line)
	}
}

// TestShutdown_saysWhy: requests that a drain did not finish end with the
// reason, not as if their clients had left.
func TestShutdown_saysWhy(t *testing.T) {
	entered := make(chan struct{})
	h := newHarness(t, &fakeService{err: context.Canceled, hook: func(ctx context.Context) {
		close(entered)
		<-ctx.Done()
	}})
	base, stop := context.WithCancelCause(context.Background())
	addr := listen(t, h.handler, base)
	_, r := dial(t, addr, head("GET", "/images", 0))
	<-entered
	stop(instance.Errorf(instance.ReasonShuttingDown, "the service is shutting down"))
	status, body := readAnswer(t, r)
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "ShuttingDown") {
		t.Errorf("got %d %s", status, body)
	}
}

func TestAdmin_routes(t *testing.T) {
	ready := &Readiness{}
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("some_metric 1\n")) })
	get := func(h http.Handler, method, target string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody))
		return w
	}
	h := AdminHandler(AdminOptions{Readiness: ready, Metrics: metrics, LogLevel: &word{}})
	if w := get(h, http.MethodGet, "/livez"); w.Code != 200 || w.Body.String() != "ok\n" {
		t.Errorf("livez: %d %s", w.Code, w.Body)
	}
	wantProblem(t, get(h, http.MethodGet, "/readyz"), 503, instance.ReasonOverloaded)
	ready.Serving()
	if w := get(h, http.MethodGet, "/readyz"); w.Code != 200 {
		t.Errorf("serving: readyz %d", w.Code)
	}
	if w := get(h, http.MethodHead, "/readyz"); w.Code != 200 {
		t.Errorf("HEAD readyz %d", w.Code)
	}
	ready.Draining()
	p := wantProblem(t, get(h, http.MethodGet, "/readyz"), 503, instance.ReasonShuttingDown)
	if p.Instance == "" {
		t.Error("the problem has no request id")
	}
	if w := get(h, http.MethodGet, "/livez"); w.Code != 200 {
		t.Errorf("draining: livez %d", w.Code)
	}
	if w := get(h, http.MethodGet, "/metrics"); w.Body.String() != "some_metric 1\n" {
		t.Errorf("metrics: %d %s", w.Code, w.Body)
	}
	wantProblem(t, get(h, http.MethodGet, "/debug/pprof/"), 404, instance.ReasonRouteNotFound)
	wantProblem(t, get(h, http.MethodGet, "/instances"), 404, instance.ReasonRouteNotFound)
	wantProblem(t, get(h, http.MethodPost, "/livez"), 405, instance.ReasonMethodNotAllowed)
	debug := AdminHandler(AdminOptions{Readiness: ready, Metrics: metrics, LogLevel: &word{}, Pprof: true})
	for _, target := range []string{"/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/pprof/cmdline"} {
		if w := get(debug, http.MethodGet, target); w.Code != 200 {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
}
