package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	httpapi "gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/http"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// logLevels are the words of --log-level, most talkative first.
var logLevels = []struct {
	word  string
	level slog.Level
}{
	{"detail", instance.LevelDetail},
	{"debug", slog.LevelDebug},
	{"info", slog.LevelInfo},
	{"warn", slog.LevelWarn},
	{"error", slog.LevelError},
}

// newLogger returns a logger that writes to w, and the switch of its level;
// format is json or text.
func newLogger(w io.Writer, format, level string) (*slog.Logger, *levelSwitch, error) {
	lvl, err := parseLevel(level)
	if err != nil {
		return nil, nil, err
	}
	ls := &levelSwitch{}
	ls.level.Set(lvl)
	opts := &slog.HandlerOptions{Level: &ls.level, ReplaceAttr: nameDetail}
	switch format {
	case "json":
		ls.log = slog.New(contextHandler{slog.NewJSONHandler(w, opts)})
	case "text":
		ls.log = slog.New(contextHandler{slog.NewTextHandler(w, opts)})
	default:
		return nil, nil, fmt.Errorf("log format %q: want json or text", format)
	}
	return ls.log, ls, nil
}

func parseLevel(word string) (slog.Level, error) {
	for _, l := range logLevels {
		if l.word == word {
			return l.level, nil
		}
	}
	return 0, errors.New("log level: want detail, debug, info, warn or error")
}

// levelSwitch changes how much a logger writes while it is in use.
type levelSwitch struct {
	level slog.LevelVar
	log   *slog.Logger
}

var _ httpapi.LogLevel = (*levelSwitch)(nil)

// Level returns the word for the level in force.
func (s *levelSwitch) Level() string {
	return levelWord(s.level.Level())
}

func levelWord(level slog.Level) string {
	for _, l := range logLevels {
		if l.level == level {
			return l.word
		}
	}
	return level.String()
}

// SetLevel puts another level into force, and says so in a line that the more
// talkative of the two lets through.
func (s *levelSwitch) SetLevel(word string) error {
	to, err := parseLevel(word)
	if err != nil {
		return err
	}
	from := s.level.Level()
	s.level.Set(min(from, to))
	s.log.Info("log level changed", "from", levelWord(from), "to", word)
	s.level.Set(to)
	return nil
}

// nameDetail gives the level below Debug its name.
func nameDetail(groups []string, a slog.Attr) slog.Attr {
	if level, ok := a.Value.Any().(slog.Level); ok && len(groups) == 0 && a.Key == slog.LevelKey && level == instance.LevelDetail {
		return slog.String(slog.LevelKey, "DETAIL")
	}
	return a
}

// contextHandler adds to each line what its context says of the request.
type contextHandler struct{ slog.Handler }

// Handle adds trace_id, span_id and request_id.
func (h contextHandler) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	if id := httpapi.RequestID(ctx); id != "" && !has(r, "request_id") {
		r.AddAttrs(slog.String("request_id", id))
	}
	return h.Handler.Handle(ctx, r)
}

func has(r slog.Record, key string) bool {
	found := false
	r.Attrs(func(a slog.Attr) bool {
		found = a.Key == key
		return !found
	})
	return found
}

// WithAttrs keeps the handler around what it wraps.
func (h contextHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return contextHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the handler around what it wraps.
func (h contextHandler) WithGroup(name string) slog.Handler {
	return contextHandler{h.Handler.WithGroup(name)}
}
