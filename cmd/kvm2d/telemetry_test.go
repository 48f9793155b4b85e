package main

import (
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

// receiver takes spans over OTLP/HTTP and keeps them by id.
type receiver struct {
	mu    sync.Mutex
	spans map[string]*tracev1.Span
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var batch collector.ExportTraceServiceRequest
	if err != nil || req.URL.Path != "/v1/traces" || proto.Unmarshal(body, &batch) != nil {
		http.Error(w, "not spans", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range batch.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				r.spans[hex.EncodeToString(span.GetSpanId())] = span
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// paths returns the spans of one trace, each with those above it: "a > b".
func (r *receiver) paths(trace string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, span := range r.spans {
		if hex.EncodeToString(span.GetTraceId()) != trace {
			continue
		}
		path := span.GetName()
		for parent := r.spans[hex.EncodeToString(span.GetParentSpanId())]; parent != nil; parent = r.spans[hex.EncodeToString(parent.GetParentSpanId())] {
			path = parent.GetName() + " > " + path
		}
		out = append(out, path)
	}
	slices.Sort(out)
	return out
}

func TestTelemetry_createIsOneTree(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	got := &receiver{spans: make(map[string]*tracev1.Span)}
	server := httptest.NewServer(got)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)

	d := startDaemon(t, nil)
	const trace = "0af7651916cd43dd8448eb211c80319c"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.api+"/instances",
		strings.NewReader(`{"name":"proxy-1","placement":"sim-1","cloudInit":"`+sentinel+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	res, err := d.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		t.Fatalf("create: got %s", res.Status)
	}
	// The end of the daemon flushes what was not sent yet.
	if err := d.end(); err != nil {
		t.Fatal(err)
	}
	d.client.CloseIdleConnections()

	paths := got.paths(trace)
	for _, want := range []string{
		"POST /instances",
		"POST /instances > kvm2.DomainDefineXML",
		"POST /instances > kvm2.DomainCreate",
		"POST /instances > kvm2.StorageVolUpload",
		"POST /instances > kvm2.DomainLookupByName > kvm2.dial",
		"POST /instances > kvm2.download > kvm2.StorageVolUpload",
	} {
		if !slices.Contains(paths, want) {
			t.Errorf("no span %q in:\n%s", want, strings.Join(paths, "\n"))
		}
	}
	for _, p := range paths {
		if strings.Count(p, ">") > 2 || !strings.HasPrefix(p, "POST /instances") {
			t.Errorf("a span hangs elsewhere: %s", p)
		}
	}
	got.mu.Lock()
	defer got.mu.Unlock()
	for _, span := range got.spans {
		if strings.Contains(span.String(), sentinel) {
			t.Errorf("user data is in the span %s", span.GetName())
		}
		if span.GetKind() == tracev1.Span_SPAN_KIND_SERVER && !strings.Contains(span.String(), "http.route") {
			t.Errorf("no http.route on the server span %s", span.GetName())
		}
	}
	if !strings.Contains(d.log.String(), `"trace_id":"`+trace+`"`) {
		t.Error("no log line has the caller's trace")
	}
}

func TestTelemetry_offWithoutEndpoint(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	life := &lifecycle{log: slog.New(slog.DiscardHandler)}
	traces, err := startTelemetry(t.Context(), life, build{})
	if err != nil {
		t.Fatal(err)
	}
	_, span := traces.Tracer("t").Start(t.Context(), "s")
	if span.IsRecording() || len(life.steps) != 0 {
		t.Errorf("recording %v, %d clean-ups; want nothing", span.IsRecording(), len(life.steps))
	}
}
