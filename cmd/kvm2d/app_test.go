package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

// running is a daemon in this process, on free ports.
type running struct {
	t          *testing.T
	api, admin string
	client     *http.Client
	stop       context.CancelFunc
	ended      chan error
	log        *lockedBuffer
}

// lockedBuffer is a buffer for a logger and a test.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// startDaemon runs a simulation, adjusted by the test, until the test ends it.
func startDaemon(t *testing.T, adjust func(*appOptions)) *running {
	t.Helper()
	d := &running{t: t, ended: make(chan error, 1), log: &lockedBuffer{}}
	opts := simulatedOptions(t, d.log)
	if adjust != nil {
		adjust(&opts)
	}
	ready := make(chan struct{})
	opts.Ready = func(api, admin net.Addr) {
		d.api, d.admin = "http://"+api.String(), "http://"+admin.String()
		close(ready)
	}
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	transport := &http.Transport{}
	d.client = &http.Client{Transport: transport, Timeout: patience}
	go func() { d.ended <- run(ctx, opts) }()
	select {
	case <-ready:
	case err := <-d.ended:
		t.Fatalf("daemon ended at once: %v", err)
	case <-time.After(patience):
		t.Fatal("daemon does not serve")
	}
	t.Cleanup(func() {
		stop()
		transport.CloseIdleConnections()
	})
	return d
}

func simulatedOptions(t *testing.T, log io.Writer) appOptions {
	t.Helper()
	logger, level, err := newLogger(log, "json", "detail")
	if err != nil {
		t.Fatal(err)
	}
	opts := appOptions{Log: logger, Level: level}
	opts.Config, opts.Backends = simulated()
	opts.Config.Server.Listen, opts.Config.Server.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	return opts
}

// end stops the daemon and returns what run returned.
func (d *running) end() error {
	d.t.Helper()
	d.stop()
	return d.wait()
}

func (d *running) wait() error {
	d.t.Helper()
	select {
	case err := <-d.ended:
		return err
	case <-time.After(patience):
		d.t.Fatal("daemon does not end")
		return nil
	}
}

// call makes a request and returns its status and JSON body.
func (d *running) call(method, url, body string) (int, map[string]any) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := d.client.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	var got map[string]any
	if strings.Contains(res.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(text, &got); err != nil {
			d.t.Fatalf("%s %s: %v in %s", method, url, err, text)
		}
	}
	return res.StatusCode, got
}

// until repeats check until it is true.
func until(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !check(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

const sentinel = "s3ntinel-of-the-user-data"

func TestRun_wholeLifeOfAnInstance(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := startDaemon(t, func(o *appOptions) { o.Config.ProbeInterval = 50 * time.Millisecond })

	status, made := d.call(http.MethodPost, d.api+"/instances",
		`{"name":"proxy-1","placement":"sim-2","size":"medium","cloudInit":"#cloud-config\npassword: `+sentinel+`\n"}`)
	if status != http.StatusCreated || made["id"] != "hosts/sim-2/domains/proxy-1" || made["size"] != "medium" {
		t.Fatalf("create: got %d %v", status, made)
	}
	one := d.api + "/instances/hosts/sim-2/domains/proxy-1"
	until(t, "state Running", func() bool {
		status, got := d.call(http.MethodGet, one, "")
		return status == http.StatusOK && got["state"] == "Running" && got["ip"] != ""
	})
	if _, got := d.call(http.MethodGet, d.api+"/instances", ""); len(list(got["items"])) != 1 {
		t.Errorf("list: got %v, want one instance", got)
	}
	until(t, "the metric of the running instance", func() bool {
		return strings.Contains(d.text(d.admin+"/metrics"), `kvm2d_instances{host="sim-2",state="Running"} 1`)
	})
	if status, _ := d.call(http.MethodDelete, one, ""); status != http.StatusNoContent {
		t.Errorf("delete: got %d, want 204", status)
	}
	if status, got := d.call(http.MethodGet, one, ""); status != http.StatusNotFound || got["kind"] != "NotFound" {
		t.Errorf("get after delete: got %d %v, want 404 NotFound", status, got)
	}
	if err := d.end(); err != nil {
		t.Errorf("run: got %v, want nil", err)
	}
	if strings.Contains(d.log.String(), sentinel) {
		t.Error("user data is in the log")
	}
	for line := range strings.Lines(d.log.String()) {
		if n := strings.Count(line, `"request_id"`); n > 1 || (n == 0 && strings.Contains(line, `"call":"DomainDefineXML"`)) {
			t.Errorf("got %d request ids, want one: %s", n, line)
		}
	}
	d.client.CloseIdleConnections()
}

func list(v any) []any {
	items, _ := v.([]any)
	return items
}

// text returns a body as it is.
func (d *running) text(url string) string {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		d.t.Fatal(err)
	}
	res, err := d.client.Do(req)
	if err != nil {
		return ""
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body)
	return string(body)
}

// heldMirror brings the first half of an image, and the rest when it is let go
// or not at all.
type heldMirror struct{ asked, letGo chan struct{} }

func (m heldMirror) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := sim.Images{}.RoundTrip(req)
	if err == nil && req.Method == http.MethodGet {
		whole := res.Body
		res.Body = io.NopCloser(io.MultiReader(io.LimitReader(whole, res.ContentLength/2), hold{m, req.Context()}, whole))
	}
	return res, err
}

// hold is a reader that ends when its mirror is let go.
type hold struct {
	heldMirror
	ctx context.Context
}

func (h hold) Read([]byte) (int, error) {
	select {
	case h.asked <- struct{}{}:
	default:
	}
	select {
	case <-h.letGo:
		return 0, io.EOF
	case <-h.ctx.Done():
		return 0, h.ctx.Err()
	}
}

func TestRun_drainWaitsForRequests(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	held := heldMirror{asked: make(chan struct{}, 1), letGo: make(chan struct{})}
	d := startDaemon(t, func(o *appOptions) { o.Backends.downloads = held })
	answer := d.create()
	<-held.asked
	d.stop()
	until(t, "not ready", func() bool { return strings.Contains(d.text(d.admin+"/readyz"), "ShuttingDown") })
	close(held.letGo)
	if got := <-answer; got.status != http.StatusCreated {
		t.Errorf("create during the drain: got %+v, want 201", got)
	}
	if err := d.wait(); err != nil {
		t.Errorf("run: got %v, want nil", err)
	}
	d.client.CloseIdleConnections()
}

func TestRun_drainCutsWhatDoesNotEnd(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	held := heldMirror{asked: make(chan struct{}, 1), letGo: make(chan struct{})}
	d := startDaemon(t, func(o *appOptions) {
		o.Backends.downloads = held
		o.Config.Timeouts.Drain = 100 * time.Millisecond
	})
	answer := d.create()
	<-held.asked
	if err := d.end(); err != nil {
		t.Errorf("run: got %v, want nil", err)
	}
	if got := <-answer; got.status != http.StatusServiceUnavailable || got.body["kind"] != "Transient" {
		t.Errorf("create that was cut: got %+v, want 503 Transient", got)
	}
	if !strings.Contains(d.log.String(), "requests were cut short") {
		t.Error("the log does not say that requests were cut short")
	}
	d.client.CloseIdleConnections()
}

type answer struct {
	status int
	body   map[string]any
}

// create asks for an instance in the background.
func (d *running) create() <-chan answer {
	out := make(chan answer, 1)
	go func() {
		status, body := d.call(http.MethodPost, d.api+"/instances", `{"name":"proxy-1","placement":"sim-1"}`)
		out <- answer{status, body}
	}()
	return out
}

func TestRun_failedStartLeavesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	broken := errors.New("broken")
	opts := simulatedOptions(t, io.Discard)
	good := opts.Backends.connector
	opts.Backends.connector = func(h config.Host) (libvirtx.Connector, error) {
		if h.Name == "sim-2" {
			return nil, broken
		}
		return good(h)
	}
	// Fixed ports tell whether the listeners were given back.
	opts.Config.Server.Listen, opts.Config.Server.AdminListen = freeAddress(t), freeAddress(t)
	err := run(t.Context(), opts)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "set up host sim-2") {
		t.Errorf("got %v, want what broke and where", err)
	}
	for _, addr := range []string{opts.Config.Server.Listen, opts.Config.Server.AdminListen} {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
		if err != nil {
			t.Errorf("the address is still taken: %v", err)
			continue
		}
		_ = l.Close()
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestRun_startDialsNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := startDaemon(t, func(o *appOptions) {
		o.Backends.connector = func(config.Host) (libvirtx.Connector, error) { return noDialling{t}, nil }
	})
	if got := d.text(d.admin + "/readyz"); got != "ok\n" {
		t.Errorf("readyz: got %q", got)
	}
	if err := d.end(); err != nil {
		t.Error(err)
	}
	d.client.CloseIdleConnections()
}

type noDialling struct{ t *testing.T }

func (n noDialling) Connect(context.Context) (libvirtx.Conn, error) {
	n.t.Error("a host was dialled")
	return nil, errors.New("not allowed")
}

func TestSimulation_isAValidConfiguration(t *testing.T) {
	cfg, world := simulated()
	for name, p := range cfg.KVM2.Placements {
		if _, ok := cfg.KVM2.Images[p.Image]; !ok {
			t.Errorf("placement %s: image %s is not configured", name, p.Image)
		}
		if _, ok := cfg.KVM2.Sizes[p.Size]; !ok {
			t.Errorf("placement %s: size %s is not configured", name, p.Size)
		}
	}
	if _, err := world.connector(config.Host{Name: "absent"}); err == nil {
		t.Error("a host that is not simulated: got no error")
	}
}

func TestMayServe_onlyLoopbackWithoutAuth(t *testing.T) {
	for _, tt := range []struct {
		listen   string
		insecure bool
		want     int
	}{
		{"127.0.0.1:0", false, exitOK},
		{"0.0.0.0:0", false, exitUsage},
		{"0.0.0.0:0", true, exitOK},
	} {
		_, err := authenticators(config.Server{Listen: tt.listen}, tt.insecure, slog.New(slog.DiscardHandler), nil)
		got := exitOK
		if o, ok := errors.AsType[*outcome](err); ok {
			got = o.code
		}
		if got != tt.want {
			t.Errorf("%s, insecure %v: got exit code %d (%v), want %d", tt.listen, tt.insecure, got, err, tt.want)
		}
	}
}
