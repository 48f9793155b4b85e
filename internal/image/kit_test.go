package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const (
	testHost  = "beelink"
	testURL   = "http://images.example.net/debian.qcow2"
	testDisk  = 10 << 30
	testStall = time.Minute
)

// kit is a Cache with everything around it.
type kit struct {
	cache *Cache
	pool  *memPool
	site  *site
	spans *tracetest.SpanRecorder
	log   *syncBuffer
	reg   *prometheus.Registry
}

// newKit makes a Cache over one pool and one site; change alters its options.
func newKit(tb testing.TB, pool *memPool, s *site, change ...func(*Options)) *kit {
	tb.Helper()
	k := &kit{pool: pool, site: s, spans: tracetest.NewSpanRecorder(), log: &syncBuffer{}, reg: prometheus.NewRegistry()}
	o := Options{
		Pool:       func(host string) (Pool, bool) { return pool, host == pool.host },
		Transport:  wire{s},
		Log:        slog.New(slog.NewTextHandler(k.log, &slog.HandlerOptions{Level: instance.LevelDetail})),
		Tracer:     sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(k.spans)).Tracer("test"),
		Registerer: k.reg,
		Stall:      testStall,
	}
	for _, c := range change {
		c(&o)
	}
	cache, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	cache.source.client = newClient(o.Transport, noDNS{})
	k.cache = cache
	tb.Cleanup(func() { k.close(tb) })
	return k
}

// close ends the cache; a test in a bubble does so before it returns.
func (k *kit) close(tb testing.TB) {
	tb.Helper()
	if err := k.cache.Close(context.WithoutCancel(tb.Context())); err != nil {
		tb.Errorf("close: %v", err)
	}
}

func withTransport(t http.RoundTripper) func(*Options) { return func(o *Options) { o.Transport = t } }

// imageOf is a configured image with the content's true checksum.
func imageOf(content []byte) instance.Image {
	sum := sha256.Sum256(content)
	return instance.Image{Name: "debian", URL: testURL, SHA256: hex.EncodeToString(sum[:])}
}

// ensure is Ensure with the defaults of the tests.
func (k *kit) ensure(ctx context.Context, img instance.Image) (instance.Base, error) {
	return k.cache.Ensure(ctx, testHost, img, testDisk)
}

func (k *kit) mustEnsure(tb testing.TB, img instance.Image) instance.Base {
	tb.Helper()
	base, err := k.ensure(tb.Context(), img)
	if err != nil {
		tb.Fatalf("ensure: %v", err)
	}
	return base
}

// wantReason asserts an error's reason, its kind through it, and its host.
func wantReason(tb testing.TB, err error, want instance.Reason) {
	tb.Helper()
	if err == nil {
		tb.Fatalf("got success, want %s", want)
	}
	if got := instance.ReasonOf(err); got != want {
		tb.Fatalf("got reason %s, want %s: %v", got, want, err)
	}
	var e *instance.Error
	if asError(err, &e) && e.Host != testHost {
		tb.Errorf("got host %q in %v, want %q", e.Host, err, testHost)
	}
}

// wantClean asserts that the pool holds exactly one marked base with the content.
func wantClean(tb testing.TB, pool *memPool, img instance.Image, content []byte) {
	tb.Helper()
	names := pool.names()
	if len(names) != 2 {
		tb.Fatalf("got volumes %v, want one base and its marker", names)
	}
	base, state, err := find(context.WithoutCancel(tb.Context()), pool, keyOf(testHost, img), "")
	if err != nil || state != marked {
		tb.Fatalf("got state %v, error %v, want marked", state, err)
	}
	if !bytes.Equal(pool.content(tb, base.Volume), content) {
		tb.Error("the base's content is not the image's")
	}
}

// syncBuffer is a log's sink.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

var _ io.Writer = (*syncBuffer)(nil)

// noDNS knows the names that tests use.
type noDNS map[string]netip.Addr

func (d noDNS) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if addr, ok := d[host]; ok {
		return []netip.Addr{addr}, nil
	}
	return nil, errPlanted
}

func asError(err error, target **instance.Error) bool { return errors.As(err, target) }
