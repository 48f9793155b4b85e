package image

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const (
	// undoLimit bounds the removal of what a failed download left.
	undoLimit = 30 * time.Second

	// reportEvery is how often a running download writes a log line.
	reportEvery = 30 * time.Second
)

// flight is one download under way. It belongs to the Cache, not to those who
// wait for it; base, err and trail are valid once done is closed.
type flight struct {
	key      key
	facts    facts
	progress *progress
	span     trace.Span
	stop     context.CancelCauseFunc
	trail    *instance.Trail

	done chan struct{}
	base instance.Base
	err  error

	// volume is what is being written, waiting how many callers wait; guarded by Cache.mu.
	volume  string
	waiting int
}

// leftBytes is what the pool will still have to take.
func (f *flight) leftBytes() int64 {
	if f.facts.compression != "" {
		return f.facts.poolBytes
	}
	return max(f.facts.poolBytes-f.progress.read().done, 0)
}

// flight returns the running download of k, nil without one.
func (c *Cache) flight(k key) *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flights[k]
}

// join returns the running download of k and starts one if there is none. Its
// span is a child of the request that starts it; those of others link to it.
// waiting is 1 when wait follows.
func (c *Cache) join(ctx context.Context, pool Pool, k key, img instance.Image, known facts, waiting int) (*flight, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.flights[k]; ok {
		f.waiting += waiting
		trace.SpanFromContext(ctx).AddLink(trace.Link{SpanContext: f.span.SpanContext()})
		return f, nil
	}
	spanCtx, span := c.tracer.Start(ctx, "kvm2.download", trace.WithAttributes(
		attribute.String("host", k.host), attribute.String("image", k.image), attribute.String("identity", k.identity)))
	f := &flight{
		key: k, facts: known, progress: newProgress(known.sourceBytes), span: span, done: make(chan struct{}), waiting: waiting,
	}
	stop, ok := c.crew.start(spanCtx, func(ctx, undo context.Context) { c.run(ctx, undo, pool, img, f) })
	if !ok {
		span.End()
		return nil, errShuttingDown(downloadOp(img), k.host)
	}
	f.stop = stop
	c.flights[k] = f
	return f, nil
}

// wait waits for a flight, or leaves it to itself when ctx ends.
func (c *Cache) wait(ctx context.Context, f *flight) (instance.Base, error) {
	select {
	case <-f.done:
		instance.TrailFrom(ctx).Add(f.trail)
		return f.base, f.err
	case <-ctx.Done():
		c.mu.Lock()
		f.waiting--
		c.mu.Unlock()
		return instance.Base{}, ended(ctx, "wait for image "+f.key.image, f.key.host)
	}
}

// run is the life of one flight.
func (c *Cache) run(ctx, undo context.Context, pool Pool, img instance.Image, f *flight) {
	defer func() { f.span.End() }() // by itself, End would tell the value of a panic
	f.trail = instance.TrailFrom(ctx)
	defer c.awaitDecoder(ctx, f)()
	if c.transfer > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.transfer, instance.Errorf(
			instance.ReasonDownloadFailed, "not done within the transfer limit of %v", c.transfer))
		defer cancel()
	}
	c.metrics.began(f.key)
	reported := c.report(ctx, f)
	var base instance.Base
	err := instance.Guard(func() (err error) {
		base, err = c.download(ctx, undo, pool, img, f)
		return err
	})
	reported()
	if err != nil && ctx.Err() != nil {
		err = ended(ctx, downloadOp(img), f.key.host)
	}
	f.base, f.err = base, onHost(vanished(err, downloadOp(img), f.key.host), f.key.host)
	c.metrics.ended(f.key, f.progress.read().taken, f.err)
	if f.err != nil {
		f.span.SetStatus(codes.Error, string(instance.ReasonOf(f.err)))
		c.failed(f.key, f.err)
	} else {
		c.remember(f.key, base, true)
	}
	c.mu.Lock()
	delete(c.flights, f.key)
	waiting := f.waiting
	c.mu.Unlock()
	c.logEnd(ctx, f, waiting)
	close(f.done)
	c.watch(undo, f.key.host, pool, true)
}

// awaitDecoder waits for the turn of a download that decompresses; the end of ctx
// ends the wait, and the download soon.
func (c *Cache) awaitDecoder(ctx context.Context, f *flight) (release func()) {
	if f.facts.compression != "" {
		select {
		case c.decoders <- struct{}{}:
			return func() { <-c.decoders }
		case <-ctx.Done():
		}
	}
	return func() {}
}

// logEnd writes how a download ended: for people when nobody waited for it, or
// nobody would ever tell; else for those who debug.
func (c *Cache) logEnd(ctx context.Context, f *flight, waiting int) {
	level := slog.LevelDebug
	if waiting == 0 {
		level = slog.LevelInfo
	}
	s := f.progress.read()
	attrs := []slog.Attr{
		slog.String("host", f.key.host), slog.String("image", f.key.image), slog.String("identity", f.key.identity),
		slog.Int64("bytes", s.done), slog.Int("attempt", s.attempt), slog.Int64("duration_ms", time.Since(s.startedAt).Milliseconds()),
	}
	if f.err != nil {
		attrs = append(attrs, slog.String("reason", string(instance.ReasonOf(f.err))), slog.String("error", f.err.Error()))
	}
	if stack, ok := instance.PanicStack(f.err); ok {
		level = slog.LevelError
		attrs = append(attrs, slog.String("stack", stack))
	}
	c.log.LogAttrs(ctx, level, "image download ended", attrs...)
}

// report tells of a flight's progress in log and metrics until the function it
// returns is called, which waits for the last word.
func (c *Cache) report(ctx context.Context, f *flight) (stop func()) {
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		second, line := time.NewTicker(time.Second), time.NewTicker(reportEvery)
		defer second.Stop()
		defer line.Stop()
		for {
			select {
			case <-quit:
				return
			case <-second.C:
				c.metrics.progress(f.key, f.progress.read())
			case <-line.C:
				s := f.progress.read()
				c.log.LogAttrs(ctx, slog.LevelInfo, "image download under way",
					slog.String("host", f.key.host), slog.String("image", f.key.image), slog.String("identity", f.key.identity),
					slog.Int64("bytes", s.done), slog.Int64("total", s.total),
					slog.Int64("bytes_per_second", s.bytesPerSecond), slog.Int("attempt", s.attempt))
			}
		}
	}()
	return func() {
		close(quit)
		<-gone
	}
}

// Pull implements instance.Images. What is wrong with the source or the pool is
// said at once; the download itself goes on alone.
func (c *Cache) Pull(ctx context.Context, host string, img instance.Image) error {
	pool, err := c.pool(host)
	if err != nil {
		return err
	}
	k := keyOf(host, img)
	defer c.watch(ctx, host, pool, false)
	base, state, err := find(ctx, pool, k, "")
	if err != nil {
		return err
	}
	c.remember(k, base, state == marked)
	if state == marked {
		return nil
	}
	if _, ready, err := c.restore(ctx, pool, k); err != nil || ready {
		return err
	}
	_, err = c.obtain(ctx, pool, k, img, 0, func(_, imageBytes int64) error {
		_, err := pool.CheckSpace(ctx, imageBytes)
		return err
	})
	return err
}

// errRemoved ends a download whose image is being removed.
var errRemoved = &instance.Error{Reason: instance.ReasonVanished, Detail: "the image was removed while it was downloaded"}

// land ends the running download of k, if any, and waits until nothing of it is left.
func (c *Cache) land(ctx context.Context, k key) error {
	f := c.flight(k)
	if f == nil {
		return nil
	}
	f.stop(errRemoved)
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return ended(ctx, "remove image "+k.image, k.host)
	}
}
