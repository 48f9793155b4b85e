package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.opentelemetry.io/otel/trace"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func TestLogger_linesCarryTheTrace(t *testing.T) {
	var out bytes.Buffer
	log, err := newLogger(&out, "json", "detail")
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
		log, err := newLogger(&out, "text", l.word)
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
	if _, err := newLogger(nil, "json", "loud"); err == nil {
		t.Error("an unknown level: got no error")
	}
	if _, err := newLogger(nil, "xml", "info"); err == nil {
		t.Error("an unknown format: got no error")
	}
}
