package http

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// only keeps the named attributes of a line.
func only(line map[string]any, keys ...string) map[string]any {
	out := map[string]any{}
	for _, k := range keys {
		if v, ok := line[k]; ok {
			out[k] = v
		}
	}
	return out
}

func TestRequestLine_failure(t *testing.T) {
	service := &fakeService{
		err: &instance.Error{Reason: instance.ReasonStartFailed, Op: "start domain", Instance: "proxy-1", Host: "h1", Err: errors.New("no kvm")},
		hook: func(ctx context.Context) {
			instance.TrailFrom(ctx).Step("start")
			instance.TrailFrom(ctx).Warn("autostart not set")
		},
	}
	h := newHarness(t, service)
	r := request(http.MethodPost, "/instances", `{"name":"proxy-1","placement":"p1","cloudInit":"`+sentinel+`"}`)
	r.Header.Set("X-Request-Id", "req-1")
	r.Header.Set("User-Agent", "agent/1\n"+strings.Repeat("x", 500))
	h.do(r)
	lines := h.lines(t)
	if len(lines) != 1 {
		t.Fatalf("%d lines for one request", len(lines))
	}
	want := map[string]any{
		"level": "INFO", "request_id": "req-1", "method": "POST", "route": "/instances", "status": 503.0, "outcome": "failed",
		"caller": "operator", "host": "h1", "instance": "proxy-1", "step": "start", "kind": "Transient", "reason": "StartFailed",
		"error": "start domain proxy-1 on h1: no kvm", "next": "caller repeats with backoff", "warnings": []any{"autostart not set"},
	}
	got := only(lines[0], "level", "request_id", "method", "route", "status", "outcome", "caller", "host", "instance", "step", "kind", "reason", "error", "next", "warnings")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
	if ua, _ := lines[0]["user_agent"].(string); len(ua) > maxUserAgentBytes+len("…") || strings.Contains(ua, "\n") {
		t.Errorf("user agent of %d bytes", len(ua))
	}
	if strings.Contains(h.log.String(), sentinel) {
		t.Error("user data in the log")
	}
}

func TestRequestLine_success(t *testing.T) {
	h := newHarness(t, &fakeService{page: instance.Page{Skipped: 2}})
	h.do(request(http.MethodGet, "/instances/hosts%2Fh1%2Fdomains%2Fproxy-1", ""))
	h.do(request(http.MethodGet, "/instances", ""))
	h.do(request("BREW", "/teapot", ""))
	h.do(request(http.MethodGet, "/instances/nothing", ""))
	want := []map[string]any{
		{"method": "GET", "route": "/instances/{id}", "status": 200.0, "outcome": "done", "host": "h1", "instance": "proxy-1"},
		{"method": "GET", "route": "/instances", "status": 200.0, "outcome": "done", "skipped": 2.0},
		{"method": "other", "route": "unmatched", "status": 404.0, "outcome": "failed", "reason": "RouteNotFound", "kind": "Permanent"},
		{"method": "GET", "route": "/instances/{id}", "status": 400.0, "outcome": "failed", "reason": "MalformedID", "kind": "Permanent"},
	}
	for i, line := range h.lines(t) {
		got := only(line, "method", "route", "status", "outcome", "host", "instance", "skipped", "reason", "kind")
		if diff := cmp.Diff(want[i], got); diff != "" {
			t.Errorf("line %d (-want +got):\n%s", i, diff)
		}
		if line["duration_ms"] == nil || line["bytes"] == 0.0 {
			t.Errorf("line %d lacks duration or bytes: %v", i, line)
		}
	}
}

func TestRequestID_takenOrMade(t *testing.T) {
	h := newHarness(t, &fakeService{})
	for id, taken := range map[string]bool{
		"abc-DEF_1.2": true, strings.Repeat("a", 64): true,
		"": false, strings.Repeat("a", 65): false, "a b": false, "a\"b": false, "ž": false,
	} {
		r := request(http.MethodGet, "/nope", "")
		r.Header.Set("X-Request-Id", id)
		w := h.do(r)
		got := w.Header().Get("X-Request-Id")
		if (got == id) != taken || !requestIDRE.MatchString(got) {
			t.Errorf("id %q: answered %q, want it taken: %v", id, got, taken)
		}
		if p := problemIn(t, w); p.Instance != got {
			t.Errorf("problem has instance %q, header %q", p.Instance, got)
		}
	}
}

// TestPanic_showsNothing: a panic is a 500 that shows nothing of it; the log has
// the stack, and of a value that could hold anything only its type.
func TestPanic_showsNothing(t *testing.T) {
	type holder struct{ text string }
	cases := []struct {
		name  string
		cause any
		want  string
	}{
		{"string", sentinel, "panic with a string"},
		{"error", errors.New(sentinel), "panic with a *errors.errorString"},
		{"struct", holder{sentinel}, "panic with a http.holder"},
		{"runtime", nil, "panic: runtime error: index out of range"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, &fakeService{hook: func(context.Context) {
				if c.cause == nil {
					_ = make([]int, 1)[len(c.name)]
				}
				panic(c.cause)
			}})
			r := request(http.MethodPost, "/instances", `{"name":"a","placement":"p","cloudInit":"`+sentinel+`"}`)
			w := h.do(r)
			wantProblem(t, w, http.StatusInternalServerError, instance.ReasonInternal)
			line := h.lines(t)[0]
			if text, _ := line["error"].(string); !strings.Contains(text, c.want) {
				t.Errorf("error = %q, want %q in it", text, c.want)
			}
			if stack, _ := line["stack"].(string); !strings.Contains(stack, "observe_test.go") {
				t.Errorf("stack = %q", stack)
			}
			if line["outcome"] != "panicked" || line["level"] != "ERROR" {
				t.Errorf("line %v", line)
			}
			if strings.Contains(w.Body.String(), "panic") || strings.Contains(w.Body.String()+h.log.String(), sentinel) {
				t.Errorf("answer or log show too much\n%s\n%s", w.Body, h.log)
			}
			if w = h.do(request(http.MethodGet, "/version", "")); w.Code != 200 {
				t.Errorf("after the panic: %d", w.Code)
			}
		})
	}
}

// TestPanic_inWorkThatWasWaitedFor: it comes as an error, whose stack is told here.
func TestPanic_inWorkThatWasWaitedFor(t *testing.T) {
	fault := instance.Guard(func() error { panic("sentinel-of-a-panic") })
	h := newHarness(t, &fakeService{err: fault})
	wantProblem(t, h.do(request(http.MethodGet, "/instances/hosts/h/domains/a", "")), http.StatusInternalServerError, instance.ReasonInternal)
	line := h.lines(t)[0]
	if stack, _ := line["stack"].(string); !strings.Contains(stack, "observe_test.go") || line["level"] != "ERROR" || line["outcome"] != "panicked" {
		t.Errorf("line %v, want level ERROR, panicked, with the stack", line)
	}
}

func TestPanic_afterTheAnswerBegan(t *testing.T) {
	o := &observer{log: discardLog(), metrics: mustMetrics(t)}
	handler := o.middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("half"))
		panic("broke")
	}))
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("recovered %v, want the connection cut", err)
		}
	}()
	handler.ServeHTTP(httptest.NewRecorder(), request(http.MethodGet, "/", ""))
	t.Error("no panic")
}

func mustMetrics(t *testing.T) *metrics {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestClientLeft_isLoggedAs499(t *testing.T) {
	h := newHarness(t, &fakeService{err: context.Canceled})
	r := request(http.MethodGet, "/instances", "")
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	h.do(r.WithContext(ctx))
	line := h.lines(t)[0]
	if line["status"] != 499.0 || line["outcome"] != "client left" {
		t.Errorf("line %v", line)
	}
}

func TestMetrics_boundedLabels(t *testing.T) {
	service := &fakeService{hook: func(ctx context.Context) { instance.TrailFrom(ctx).Warn("w") }}
	h := newHarness(t, service)
	for i := range 20 {
		h.do(request(http.MethodDelete, fmt.Sprintf("/instances/hosts/h%d/domains/a", i), ""))
		h.do(request(http.MethodGet, fmt.Sprintf("/made-up-%d", i), ""))
		h.do(request(fmt.Sprintf("BREW%d", i), "/version", ""))
	}
	want := `# HELP kvm2d_http_requests_total Finished requests by route, method, status and the error's kind (empty on success).
# TYPE kvm2d_http_requests_total counter
kvm2d_http_requests_total{kind="",method="DELETE",route="/instances/{id}",status="204"} 20
kvm2d_http_requests_total{kind="Permanent",method="DELETE",route="unmatched",status="401"} 0
kvm2d_http_requests_total{kind="Permanent",method="DELETE",route="unmatched",status="403"} 0
kvm2d_http_requests_total{kind="Permanent",method="GET",route="unmatched",status="401"} 0
kvm2d_http_requests_total{kind="Permanent",method="GET",route="unmatched",status="403"} 0
kvm2d_http_requests_total{kind="Permanent",method="POST",route="unmatched",status="401"} 0
kvm2d_http_requests_total{kind="Permanent",method="POST",route="unmatched",status="403"} 0
kvm2d_http_requests_total{kind="Permanent",method="GET",route="unmatched",status="404"} 20
kvm2d_http_requests_total{kind="Permanent",method="other",route="unmatched",status="405"} 20
# HELP kvm2d_http_request_warnings_total Warnings on requests' log lines, such as a delete on a host that is not configured.
# TYPE kvm2d_http_request_warnings_total counter
kvm2d_http_request_warnings_total{method="DELETE",route="/instances/{id}"} 20
# HELP kvm2d_http_requests_in_flight Requests under way.
# TYPE kvm2d_http_requests_in_flight gauge
kvm2d_http_requests_in_flight 0
`
	err := testutil.GatherAndCompare(h.registry, strings.NewReader(want),
		"kvm2d_http_requests_total", "kvm2d_http_request_warnings_total", "kvm2d_http_requests_in_flight")
	if err != nil {
		t.Error(err)
	}
}

func TestSpans_routeAndParent(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	var inHandler trace.SpanContext
	service := &fakeService{hook: func(ctx context.Context) { inHandler = trace.SpanContextFromContext(ctx) }}
	h := newHarness(t, service, func(o *Options) { o.Tracer = provider })
	r := request(http.MethodGet, "/instances/hosts/h1/domains/proxy-1", "")
	r.Header.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	h.do(r)
	service.err = &instance.Error{Reason: instance.ReasonUnreachable}
	h.do(request(http.MethodGet, "/health", ""))
	h.do(request(http.MethodGet, "/images", ""))

	ended := spans.Ended()
	if len(ended) != 3 {
		t.Fatalf("%d spans", len(ended))
	}
	first := ended[0]
	if first.Name() != "GET /instances/{id}" || first.Parent().TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("span %q under %s", first.Name(), first.Parent().TraceID())
	}
	if inHandler.TraceID() != ended[1].SpanContext().TraceID() && inHandler.TraceID() != ended[2].SpanContext().TraceID() {
		t.Error("the handler does not run in its request's span")
	}
	attrs := map[string]string{}
	for _, kv := range ended[2].Attributes() {
		attrs[string(kv.Key)] = kv.Value.String()
	}
	if attrs["http.route"] != "/images" || attrs["kvm2d.reason"] != "Unreachable" {
		t.Errorf("attributes %v", attrs)
	}
}

// TestSecrets_comeOutNowhere plants one in the body, the token, a header and
// the query, in requests that fail in every early way, and looks everywhere.
func TestSecrets_comeOutNowhere(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	used := 0
	service := &fakeService{created: instance.Created{Instance: testInstance()}}
	service.hook = func(context.Context) {
		if strings.Contains(string(service.spec.UserData), sentinel) {
			used++
		}
	}
	h := newHarness(t, service, func(o *Options) {
		o.Tracer = provider
		o.Auth = []Authenticator{tokenAuth{"token-" + sentinel, Principal{Name: "operator", Role: RoleFull}}}
	})
	var answers strings.Builder
	for _, body := range []string{
		`{"name":"a","placement":"p","cloudInit":"` + sentinel + `"}`,
		`{"name":"a","placement":"p","cloudInit":["` + sentinel + `"]}`,
		`{"name":"` + sentinel + `_","placement":"` + strings.Repeat(sentinel, 9) + `","uid":"` + sentinel + ` ","image":7}`,
		sentinel, `"` + sentinel + `"`, `{"name":"a","placement":"p","cloudInitBase64":"` + sentinel + `"}`,
	} {
		for _, target := range []string{"/instances", "/instances?dryRun=" + sentinel, "/instances?dryRun=true"} {
			r := request(http.MethodPost, target, body)
			r.Header.Set("Authorization", "Bearer token-"+sentinel)
			r.Header.Set("Cookie", sentinel)
			r.Header.Set("X-Request-Id", sentinel+" ")
			r.Header.Set("Prefer", "wait="+sentinel)
			w := h.do(r)
			answers.WriteString(w.Body.String() + fmt.Sprint(w.Header()))
			r.Header.Set("Authorization", "Bearer other-"+sentinel)
			w = h.do(r)
			answers.WriteString(w.Body.String() + fmt.Sprint(w.Header()))
		}
	}
	if used == 0 {
		t.Error("the user data never reached the service: the test proves nothing")
	}
	for _, s := range spans.Ended() {
		fmt.Fprint(&answers, s.Name(), s.Attributes(), s.Events(), s.Status())
	}
	families, err := h.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(&answers, families)
	answers.WriteString(h.log.String())
	if out := answers.String(); strings.Contains(out, sentinel) {
		i := strings.Index(out, sentinel)
		t.Errorf("a secret came out: …%s…", out[max(0, i-200):min(len(out), i+100)])
	}
}
