package http

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// unmatched stands for the route of a request that no route took, so that
// paths never become labels.
const unmatched = "unmatched"

const (
	maxUserAgentBytes = 128
	maxErrorBytes     = 1024
)

// observer writes the one line of each finished request, counts it, names its
// span, and keeps a panic from the process.
type observer struct {
	log     *slog.Logger
	metrics *metrics
}

func (o *observer) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := &record{requestID: requestID(r)}
		ctx, trail := instance.WithTrail(withRecord(r.Context(), rec))
		r = r.WithContext(ctx)
		out := &recorder{ResponseWriter: w}
		out.Header().Set("X-Request-Id", rec.requestID)

		o.metrics.inFlight.Inc()
		defer func() {
			o.metrics.inFlight.Dec()
			abort := recovered(out, r, rec, recover())
			o.finish(r, rec, out, trail, time.Since(start))
			if abort {
				panic(http.ErrAbortHandler) // the answer had begun: cut the connection, so that nobody takes it for whole
			}
		}()
		next.ServeHTTP(out, r)
	})
}

// recovered answers a panic, if cause is one, with a problem that shows nothing
// of it. It reports whether the connection must be cut.
func recovered(out *recorder, r *http.Request, rec *record, cause any) (abort bool) {
	if cause == nil {
		return false
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return true
	}
	rec.stack = string(debug.Stack())
	err := &instance.Error{Reason: instance.ReasonInternal, Op: "handle request", Detail: panicText(cause)}
	if out.started() {
		rec.failed(err, problemOf(r.Context(), err))
		return true
	}
	fail(out, r, err)
	return false
}

// panicText is what the log says of a panic: the runtime's own words, or only
// the type of a value that could hold anything.
func panicText(cause any) string {
	var re runtime.Error
	if err, ok := cause.(error); ok && errors.As(err, &re) {
		return "panic: " + re.Error()
	}
	return fmt.Sprintf("panic with a %T", cause)
}

func (o *observer) finish(r *http.Request, rec *record, out *recorder, trail *instance.Trail, took time.Duration) {
	route := rec.route
	if route == "" {
		route = routeOf(r.Context())
	}
	status := out.status
	if status == 0 {
		status = http.StatusOK
	}
	if stack, ok := instance.PanicStack(rec.err); ok {
		rec.stack = stack
	}
	step, warnings := trail.Read()
	o.metrics.observe(route, r.Method, status, rec.kind, len(warnings), took)
	nameSpan(r, route, rec, status)

	attrs := make([]slog.Attr, 0, 20)
	attrs = append(attrs,
		slog.String("request_id", rec.requestID), slog.String("method", boundedMethod(r.Method)), slog.String("route", route),
		slog.Int("status", status), slog.String("outcome", outcome(rec, status)),
		slog.Int64("duration_ms", took.Milliseconds()), slog.Int64("bytes", out.bytes),
	)
	attrs = appendText(attrs, "caller", rec.caller)
	attrs = appendText(attrs, "host", rec.host)
	attrs = appendText(attrs, "instance", rec.instance)
	attrs = appendText(attrs, "step", step)
	if rec.err != nil {
		attrs = append(attrs,
			slog.String("kind", string(rec.kind)), slog.String("reason", string(rec.reason)),
			slog.String("error", printable(rec.err.Error(), maxErrorBytes)), slog.String("next", nextStep(rec.kind)),
		)
	}
	if len(warnings) > 0 {
		attrs = append(attrs, slog.Any("warnings", warnings))
	}
	if rec.skipped > 0 {
		attrs = append(attrs, slog.Int("skipped", rec.skipped))
	}
	attrs = appendText(attrs, "stack", rec.stack)
	attrs = appendText(attrs, "user_agent", printable(r.UserAgent(), maxUserAgentBytes))
	// The line is written even when the request was cancelled, with its trace.
	o.log.LogAttrs(context.WithoutCancel(r.Context()), level(rec.reason), "request", attrs...)
}

func appendText(attrs []slog.Attr, key, value string) []slog.Attr {
	if value == "" {
		return attrs
	}
	return append(attrs, slog.String(key, value))
}

func outcome(rec *record, status int) string {
	switch {
	case rec.stack != "":
		return "panicked"
	case status == statusClientLeft:
		return "client left"
	case rec.err != nil:
		return "failed"
	default:
		return "done"
	}
}

// routeOf returns the route's pattern, of a bounded set.
func routeOf(ctx context.Context) string {
	rctx := chi.RouteContext(ctx)
	if rctx == nil {
		return unmatched
	}
	if p := rctx.RoutePattern(); p != "" && !strings.Contains(p, "*") {
		return p
	}
	return unmatched
}

// nameSpan gives the server span its route and outcome; the tracing middleware
// around the router cannot know them.
func nameSpan(r *http.Request, route string, rec *record, status int) {
	span := trace.SpanFromContext(r.Context())
	if !span.IsRecording() {
		return
	}
	span.SetName(boundedMethod(r.Method) + " " + route)
	span.SetAttributes(attribute.String("http.route", route), attribute.String("kvm2d.request_id", rec.requestID))
	if rec.err == nil {
		return
	}
	span.SetAttributes(attribute.String("kvm2d.kind", string(rec.kind)), attribute.String("kvm2d.reason", string(rec.reason)))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, string(rec.reason))
	}
}
