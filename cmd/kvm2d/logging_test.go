package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func TestLogger_linesCarryTheTrace(t *testing.T) {
	var out bytes.Buffer
	log, _, err := newLogger(&out, "json", "detail")
	if err != nil {
		t.Fatal(err)
	}
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	}))
	log.With("host", "a").Log(ctx, instance.LevelDetail, "chose an address")
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"level": "DETAIL", "msg": "chose an address", "host": "a",
		"trace_id": "01000000000000000000000000000000", "span_id": "0200000000000000",
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreMapEntries(func(k string, _ any) bool { return k == "time" })); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
}

func TestLogger_levels(t *testing.T) {
	for i, l := range logLevels {
		var out bytes.Buffer
		log, _, err := newLogger(&out, "text", l.word)
		if err != nil {
			t.Fatal(err)
		}
		for _, each := range logLevels {
			log.Log(t.Context(), each.level, "line")
		}
		if got, want := strings.Count(out.String(), "\n"), len(logLevels)-i; got != want {
			t.Errorf("level %s: got %d lines, want %d", l.word, got, want)
		}
	}
	if _, _, err := newLogger(nil, "json", "loud"); err == nil {
		t.Error("an unknown level: got no error")
	}
	if _, _, err := newLogger(nil, "xml", "info"); err == nil {
		t.Error("an unknown format: got no error")
	}
}

func TestLevelSwitch_changesARunningLogger(t *testing.T) {
	var out bytes.Buffer
	log, level, err := newLogger(&out, "text", "error")
	if err != nil {
		t.Fatal(err)
	}
	child := log.With("host", "a")
	child.Info("before")
	for _, word := range []string{"detail", "warn"} {
		if err := level.SetLevel(word); err != nil || level.Level() != word {
			t.Errorf("set %s: got %v and level %s", word, err, level.Level())
		}
		child.Debug("line", "at", word)
	}
	if err := level.SetLevel("loud"); err == nil || level.Level() != "warn" {
		t.Errorf("an unknown word: got %v and level %s, want an error and warn", err, level.Level())
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		got = append(got, rest)
	}
	want := []string{
		`level=INFO msg="log level changed" from=error to=detail`,
		`level=DEBUG msg=line host=a at=detail`,
		`level=INFO msg="log level changed" from=detail to=warn`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// TestLog_everyLineOfARequestHasItsIDs follows a create through detached work, a
// download and the calls to a host.
func TestLog_everyLineOfARequestHasItsIDs(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := startDaemon(t, func(o *appOptions) { o.Config.ProbeInterval = time.Hour })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.api+"/instances", strings.NewReader(`{"name":"proxy-1","placement":"sim-1"}`))
	if err != nil {
		t.Fatal(err)
	}
	const traceID = "0af7651916cd43dd8448eb211c80319c"
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", "rq-1")
	req.Header.Set("Traceparent", "00-"+traceID+"-b7ad6b7169203331-01")
	res, err := d.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if err := d.end(); err != nil {
		t.Fatal(err)
	}
	d.client.CloseIdleConnections()

	own := map[string]bool{"serving": true, "stopping": true, "stopped": true, "stopped a part": true}
	met := map[string]bool{}
	for text := range strings.Lines(d.log.String()) {
		var line struct {
			Msg       string
			RequestID string `json:"request_id"`
			TraceID   string `json:"trace_id"`
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		met[line.Msg] = true
		if !own[line.Msg] && (line.RequestID != "rq-1" || line.TraceID != traceID) {
			t.Errorf("a line without the ids of its request: %s", text)
		}
	}
	for _, msg := range []string{"request", "create ended", "image download ended", "libvirt call", "libvirt dial"} {
		if !met[msg] {
			t.Errorf("no line %q", msg)
		}
	}
}
