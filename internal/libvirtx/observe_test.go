package libvirtx

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// watched is a link whose every sign is kept.
type watched struct {
	*Link
	spans   *tracetest.SpanRecorder
	tracers *sdktrace.TracerProvider
	log     *syncBuffer
	reg     *prometheus.Registry
}

// syncBuffer is a bytes.Buffer for several writers.
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

func watch(t *testing.T, level slog.Level, c Connector) watched {
	t.Helper()
	w := watched{spans: tracetest.NewSpanRecorder(), log: new(syncBuffer), reg: prometheus.NewRegistry()}
	w.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans))
	w.Link = newTestLink(t, LinkOptions{
		Connector: c,
		Log:       slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: level})),
		Tracer:    w.tracers.Tracer("test"),
		Metrics:   NewMetrics(w.reg),
	})
	return w
}

// everything that came out of it, as text to search.
func (w watched) everything(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	all.WriteString(w.log.String())
	for _, span := range w.spans.Ended() {
		fmt.Fprintln(&all, span.Name(), span.Attributes(), span.Events(), span.Status())
	}
	families, err := w.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		fmt.Fprintln(&all, f.String())
	}
	return all.String()
}

func (w watched) spanNames() []string {
	var names []string
	for _, s := range w.spans.Ended() {
		names = append(names, s.Name())
	}
	return names
}

// TestObserve_everySeamMethodInstrumented calls whatever the seam has, so that
// a method added to it cannot pass by.
func TestObserve_everySeamMethodInstrumented(t *testing.T) {
	seam := reflect.TypeFor[Backend]()
	if seam.NumMethod() < 30 {
		t.Fatalf("the seam has %d methods only", seam.NumMethod())
	}
	w := watch(t, slog.LevelDebug, always(nil))
	nothing := runnerFunc(func(context.Context, call, rpc) error { return nil })
	backend := reflect.ValueOf(Backend(calls{observed{w.observe, nothing}}))
	for m := range seam.Methods() {
		name := m.Name
		t.Run(name, func(t *testing.T) {
			method := backend.MethodByName(name)
			args := []reflect.Value{reflect.ValueOf(t.Context())}
			for j := 1; j < method.Type().NumIn(); j++ {
				args = append(args, reflect.Zero(method.Type().In(j)))
			}
			linesBefore := strings.Count(w.log.String(), "\n")
			spansBefore := len(w.spans.Ended())
			method.Call(args)
			ended := w.spans.Ended()[spansBefore:]
			if len(ended) != 1 || ended[0].Name() != "kvm2."+name {
				t.Fatalf("got %d spans %v, want one kvm2.%s", len(ended), w.spanNames()[spansBefore:], name)
			}
			attrs := attribute.NewSet(ended[0].Attributes()...)
			for key, want := range map[string]string{"kvm2.host": "h1", "kvm2.outcome": "ok"} {
				if got, _ := attrs.Value(attribute.Key(key)); got.AsString() != want {
					t.Errorf("span's %s: got %q, want %q", key, got.AsString(), want)
				}
			}
			lines := strings.Split(strings.TrimSpace(w.log.String()), "\n")[linesBefore:]
			if len(lines) != 1 || !strings.Contains(lines[0], "call="+name) {
				t.Errorf("got lines %q, want one with call=%s", lines, name)
			}
			if got := testutil.ToFloat64(w.observe.metrics.calls.WithLabelValues("h1", name, "ok")); got != 1 {
				t.Errorf("counted %v times, want once", got)
			}
		})
	}
	if got, want := testutil.CollectAndCount(w.observe.metrics.callSeconds), seam.NumMethod(); got != want {
		t.Errorf("%d durations, want %d", got, want)
	}
	for name := range routes {
		if _, ok := seam.MethodByName(name); !ok {
			t.Errorf("routes has %s, which the seam has not", name)
		}
	}
}

type runnerFunc func(context.Context, call, rpc) error

func (f runnerFunc) do(ctx context.Context, c call, fn rpc) error { return f(ctx, c, fn) }

func TestObserve_childSpansUnderParent(t *testing.T) {
	w := watch(t, slog.LevelDebug, always(nil))
	ctx, parent := w.tracers.Tracer("test").Start(t.Context(), "request")
	if _, err := w.Backend().ConnectGetLibVersion(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.Fresh(ctx, func(ctx context.Context, b Backend) error {
		_, err := b.ConnectGetHostname(ctx)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	parent.End()
	parents := map[string]string{}
	names := map[string]string{}
	for _, s := range w.spans.Ended() {
		names[s.SpanContext().SpanID().String()] = s.Name()
	}
	var got []string
	for _, s := range w.spans.Ended() {
		if s.SpanContext().TraceID() != parent.SpanContext().TraceID() {
			t.Errorf("%s is in a trace of its own", s.Name())
		}
		parents[s.Name()] = names[s.Parent().SpanID().String()]
		got = append(got, s.Name()+" < "+names[s.Parent().SpanID().String()])
	}
	want := []string{
		"kvm2.dial < kvm2.ConnectGetLibVersion", // the first call found no session
		"kvm2.ConnectGetLibVersion < request",
		"kvm2.dial < request",
		"kvm2.ConnectGetHostname < request",
		"request < ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

func TestObserve_logsOneLinePerCallAtV1(t *testing.T) {
	answer := map[string]error{
		"DomainDestroy": libvirt.Error{Code: uint32(libvirt.ErrNoDomain), Message: "Domain not found"},
		"DomainCreate":  errors.New("odd"),
	}
	w := watch(t, slog.LevelDebug, always(func(_ *fakeConn, name string) error { return answer[name] }))
	b := w.Backend()
	_ = b.DomainDestroy(t.Context(), libvirt.Domain{Name: "proxy-1"})
	_ = b.DomainCreate(t.Context(), libvirt.Domain{Name: "proxy-1"}, 0)
	_ = b.StorageVolDelete(t.Context(), libvirt.StorageVol{Name: "v1"})
	lines := strings.Split(strings.TrimSpace(w.log.String()), "\n")
	want := [][]string{
		{`level=DEBUG msg="libvirt dial"`, "host=h1", "session=slow", "outcome=ok", "duration_ms="},
		{`level=DEBUG msg="libvirt call"`, "host=h1", "call=DomainDestroy", "instance=proxy-1", "outcome=InstanceNotFound", `error="Domain not found"`},
		{`level=DEBUG msg="libvirt call"`, "host=h1", "call=DomainCreate", "instance=proxy-1", "outcome=LibvirtError", "error=odd"},
		{`level=DEBUG msg="libvirt call"`, "host=h1", "call=StorageVolDelete", "volume=v1", "outcome=ok", "duration_ms="},
	}
	if len(lines) != len(want) {
		t.Fatalf("got %d lines, want %d:\n%s", len(lines), len(want), w.log)
	}
	for i, parts := range want {
		for _, part := range parts {
			if !strings.Contains(lines[i], part) {
				t.Errorf("line %d: got %s, want %s in it", i, lines[i], part)
			}
		}
	}
	failed := w.spans.Ended()[1]
	if got := failed.Status().Code; got != codes.Error {
		t.Errorf("the failed call's span: got status %v, want Error", got)
	}
	quiet := watch(t, slog.LevelInfo, always(nil))
	_, _ = quiet.Backend().ConnectGetLibVersion(t.Context())
	if got := quiet.log.String(); got != "" {
		t.Errorf("at V0: got %s, want silence", got)
	}
}

func TestObserve_detailOnlyAtV2(t *testing.T) {
	xml := "<domain><name>proxy-1</name></domain>"
	for level, want := range map[slog.Level]bool{slog.LevelDebug: false, instance.LevelDetail: true} {
		w := watch(t, level, always(nil))
		if _, err := w.Backend().DomainDefineXML(t.Context(), xml, 0); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(w.log.String(), fmt.Sprintf("xml_bytes=%d", len(xml))); got != want {
			t.Errorf("at %v: detail %v, want %v:\n%s", level, got, want, w.log)
		}
		if strings.Contains(w.everything(t), "<domain>") {
			t.Errorf("at %v: the document itself came out", level)
		}
	}
}

func TestObserve_uploadBodyNeverLogged(t *testing.T) {
	secret := make([]byte, 24)
	if _, err := rand.Read(secret); err != nil {
		t.Fatal(err)
	}
	body := "#cloud-config\npassword: " + hex.EncodeToString(secret)
	w := watch(t, instance.LevelDetail-8, always(nil))
	for _, length := range []int{len(body), len(body) + 1, sharedTransferBytes + 1} { // whole, short, short on its own session
		_ = w.Backend().StorageVolUpload(t.Context(), libvirt.StorageVol{Name: "seed"}, strings.NewReader(body), 0, uint64(length))
	}
	broken := io.MultiReader(strings.NewReader(body), readErr{errors.New("broken")})
	_ = w.Backend().StorageVolUpload(t.Context(), libvirt.StorageVol{Name: "seed"}, broken, 0, 1000)
	out := w.everything(t)
	if !strings.Contains(out, "volume=seed") {
		t.Fatalf("the upload left no line:\n%s", out)
	}
	for _, form := range []string{
		body, hex.EncodeToString(secret), base64.StdEncoding.EncodeToString([]byte(body)), "password", "cloud-config",
	} {
		if strings.Contains(out, form) {
			t.Errorf("%q came out", form)
		}
	}
}

type readErr struct{ err error }

func (r readErr) Read([]byte) (int, error) { return 0, r.err }

func TestObserve_sessionsAndAbandonedCallsAreCounted(t *testing.T) {
	sent, letGo := make(chan struct{}), make(chan struct{})
	w := watch(t, slog.LevelDebug, always(func(*fakeConn, string) error {
		close(sent)
		<-letGo
		return nil
	}))
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error)
	go func() { answer <- w.Backend().DomainCreate(ctx, libvirt.Domain{}, 0) }()
	<-sent
	cancel()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want a cancellation", err)
	}
	if got := testutil.ToFloat64(w.observe.metrics.abandoned.WithLabelValues("h1", "DomainCreate")); got != 1 {
		t.Errorf("%v abandoned calls, want 1", got)
	}
	slow := w.observe.metrics.sessions.WithLabelValues("h1", "slow")
	eventually(t, "a slow session", func() bool { return testutil.ToFloat64(slow) == 1 })
	close(letGo)
	_ = w.Close()
	if got := testutil.ToFloat64(slow); got != 0 {
		t.Errorf("%v sessions after Close, want 0", got)
	}
	if got := testutil.ToFloat64(w.observe.metrics.dials.WithLabelValues("h1", "ok")); got != 1 {
		t.Errorf("%v dials, want 1", got)
	}
}

// TestObserve_lostConnectionIsTold at Info, with the cause, and not told of when
// it was us who closed it.
func TestObserve_lostConnectionIsTold(t *testing.T) {
	f := serveLibvirt(t, &fakeLibvirtd{})
	w := watch(t, slog.LevelInfo, NewLocalConnector(LocalOptions{Socket: f.socket}))
	if _, err := w.Backend().ConnectGetLibVersion(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.muteAfterOpen.Store(true)
	blocked := make(chan error, 1)
	go func() { _, err := w.Backend().ConnectGetHostname(t.Context()); blocked <- err }()
	eventually(t, "the call is under way", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return slices.Contains(f.procs, procHostname)
	})
	f.drop()
	const cause = "libvirtd or the SSH server hung up"
	if err := <-blocked; !strings.Contains(err.Error(), "the connection was lost ("+cause) {
		t.Errorf("the call: got %v, want the cause %q", err, cause)
	}
	eventually(t, "the loss is told", func() bool { return w.log.String() != "" })
	f.muteAfterOpen.Store(false)
	if _, err := w.Backend().ConnectGetLibVersion(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if got := w.log.String(); strings.Count(got, "\n") != 1 ||
		!strings.Contains(got, `level=INFO msg="libvirt connection lost" host=h1 session=fast error="`+cause) {
		t.Errorf("got %s, want one line of the loss", got)
	}
}
