//go:build integration

package integration_test

import (
	"encoding/hex"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spans takes what the daemon exports over OTLP/HTTP.
type spans struct {
	mu  sync.Mutex
	all []*tracev1.Span
}

func (s *spans) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var batch collector.ExportTraceServiceRequest
	if err != nil || proto.Unmarshal(body, &batch) != nil {
		http.Error(w, "not spans", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range batch.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			s.all = append(s.all, scope.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// of returns the spans of that name.
func (s *spans) of(name string) []*tracev1.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.all), func(span *tracev1.Span) bool { return span.GetName() != name })
}

// ancestors are the names of the spans above one, nearest first.
func (s *spans) ancestors(span *tracev1.Span) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for {
		i := slices.IndexFunc(s.all, func(other *tracev1.Span) bool {
			return slices.Equal(other.GetSpanId(), span.GetParentSpanId()) && slices.Equal(other.GetTraceId(), span.GetTraceId())
		})
		if i < 0 {
			return names
		}
		span = s.all[i]
		names = append(names, span.GetName())
	}
}

// duration is how long a span took.
func duration(span *tracev1.Span) time.Duration {
	return time.Duration(span.GetEndTimeUnixNano() - span.GetStartTimeUnixNano())
}

// traced sends each request as part of one trace.
type traced struct{ trace [16]byte }

// RoundTrip adds the header by which a service joins the caller's trace.
func (t traced) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Traceparent", "00-"+hex.EncodeToString(t.trace[:])+"-"+strings.Repeat("01", 8)+"-01")
	return http.DefaultTransport.RoundTrip(req)
}
