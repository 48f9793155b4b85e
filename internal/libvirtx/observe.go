package libvirtx

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// outcomeOK is the outcome of what did not fail; a failure's is its reason.
const outcomeOK = "ok"

// observer tells of one host's calls and dials: a span each, one Debug line, a
// duration and a count. It sees names, sizes and outcomes, never contents.
type observer struct {
	host    string
	log     *slog.Logger
	tracer  trace.Tracer
	metrics *Metrics
}

// observed is the decorator that every call passes.
type observed struct {
	observer
	next runner
}

func (o observed) do(ctx context.Context, c call, fn rpc) error {
	ctx, span := o.tracer.Start(ctx, "kvm2."+c.name,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(o.attributes(c.subject)...))
	defer end(span)()
	began := time.Now()
	err := o.next.do(ctx, c, fn)
	took := time.Since(began)

	outcome := outcomeOf(err)
	finish(span, outcome, err)
	o.metrics.callSeconds.WithLabelValues(o.host, c.name).Observe(took.Seconds())
	o.metrics.calls.WithLabelValues(o.host, c.name, outcome).Inc()
	if o.log.Enabled(ctx, slog.LevelDebug) {
		o.log.LogAttrs(ctx, slog.LevelDebug, "libvirt call", line(outcome, took, err, slog.String("call", c.name), c.subject)...)
	}
	if c.detail.Key != "" {
		o.log.LogAttrs(ctx, instance.LevelDetail, "libvirt call detail", slog.String("call", c.name), c.subject, c.detail)
	}
	return err
}

// dial connects, under the same eyes.
func (o observer) dial(ctx context.Context, kind lane, connector Connector) (Conn, error) {
	session := slog.String("session", kind.String())
	ctx, span := o.tracer.Start(ctx, "kvm2.dial",
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(o.attributes(session)...))
	defer end(span)()
	began := time.Now()
	var conn Conn
	err := instance.Guard(func() (err error) {
		conn, err = connector.Connect(ctx)
		return err
	})
	took := time.Since(began)

	outcome := outcomeOf(err)
	finish(span, outcome, err)
	o.panicked("libvirt dial", err)
	o.metrics.dialSeconds.WithLabelValues(o.host).Observe(took.Seconds())
	o.metrics.dials.WithLabelValues(o.host, outcome).Inc()
	if o.log.Enabled(ctx, slog.LevelDebug) {
		o.log.LogAttrs(ctx, slog.LevelDebug, "libvirt dial", line(outcome, took, err, session)...)
	}
	return conn, err
}

// lost tells of a connection that went away without our doing. No request need
// be there to tell of it.
func (o observer) lost(kind lane, cause error) {
	o.log.Info("libvirt connection lost", slog.String("session", kind.String()), slog.String("error", cause.Error()))
}

// panicked tells of a panic, if that is what err comes from and nobody has told
// of it: it ends work that others may wait for, or nobody.
func (o observer) panicked(what string, err error) {
	if stack, ok := instance.PanicStack(err); ok {
		o.log.Error("panic", slog.String("in", what), slog.String("error", err.Error()), slog.String("stack", stack))
	}
}

// abandoned counts a call whose caller left before its answer.
func (o observer) abandoned(c call) {
	o.metrics.abandoned.WithLabelValues(o.host, c.name).Inc()
}

func (o observer) attributes(subject slog.Attr) []attribute.KeyValue {
	attrs := []attribute.KeyValue{attribute.String("kvm2.host", o.host)}
	if subject.Key != "" {
		attrs = append(attrs, attribute.String("kvm2."+subject.Key, subject.Value.String()))
	}
	return attrs
}

// line adds to attrs what every line says.
func line(outcome string, took time.Duration, err error, attrs ...slog.Attr) []slog.Attr {
	attrs = append(attrs, slog.String("outcome", outcome), slog.Float64("duration_ms", float64(took.Microseconds())/1000))
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	return attrs
}

// end returns what ends a span. Deferred by itself, End would find a panic and
// tell its value, which may be anything.
func end(span trace.Span) func() { return func() { span.End() } }

func outcomeOf(err error) string {
	if err == nil {
		return outcomeOK
	}
	return string(Classify(err))
}

func finish(span trace.Span, outcome string, err error) {
	span.SetAttributes(attribute.String("kvm2.outcome", outcome))
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
}
