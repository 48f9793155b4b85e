package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// methods calls each method of a Provider with good arguments.
var methods = map[string]func(context.Context, *Provider) error{
	"Create": func(ctx context.Context, p *Provider) error {
		_, err := p.Create(ctx, CreateRequest{Name: "proxy-1", Placement: "p"})
		return err
	},
	"Get":    func(ctx context.Context, p *Provider) error { _, err := p.Get(ctx, testID); return err },
	"Delete": func(ctx context.Context, p *Provider) error { return p.Delete(ctx, testID, "") },
	"ListByTag": func(ctx context.Context, p *Provider) error {
		_, err := p.ListByTag(ctx, map[string]string{"pool": "egress"})
		return err
	},
	"Check": func(ctx context.Context, p *Provider) error { _, err := p.Check(ctx); return err },
}

func TestMethods_successes(t *testing.T) {
	ctx := t.Context()
	p, s := newProvider(t, nil, jsonReply(201, testBody))
	in, err := p.Create(ctx, CreateRequest{
		Name: "proxy-1", UID: "u", Placement: "p", UserData: Secret("#cloud-config\r\n"), Tags: map[string]string{"pool": "egress"}, NoAutostart: true,
	})
	if err != nil || in.ID != testID || in.State != Running || *in.IP != "192.0.2.1" {
		t.Errorf("Create = %+v, %v", in, err)
	}
	want := `{"autostart":false,"cloudInit":"#cloud-config\r\n","name":"proxy-1","placement":"p","tags":{"pool":"egress"},"uid":"u"}`
	if got := strings.TrimSpace(s.body(0)); got != want {
		t.Errorf("body\n got %s\nwant %s", got, want)
	}
	if got := s.sent()[0].Header.Get("Prefer"); got != "" {
		t.Errorf("Prefer = %q", got)
	}

	p, s = newProvider(t, nil, jsonReply(200, testBody))
	if in, err := p.Get(ctx, testID); err != nil || in.Name != "proxy-1" {
		t.Errorf("Get = %+v, %v", in, err)
	}
	if got, want := s.sent()[0].URL.EscapedPath(), "/instances/hosts%2Fh1%2Fdomains%2Fproxy-1"; got != want {
		t.Errorf("path = %s, want %s", got, want)
	}

	p, s = newProvider(t, nil, reply{status: 204})
	if err := errors.Join(p.Delete(ctx, testID, ""), p.Delete(ctx, testID, "u:1")); err != nil {
		t.Error(err)
	}
	if a, b := s.sent()[0].URL.RawQuery, s.sent()[1].URL.Query().Get("uid"); a != "" || b != "u:1" {
		t.Errorf("queries %q, uid %q", a, b)
	}

	p, s = newProvider(t, nil, jsonReply(200, testList))
	items, err := p.ListByTag(ctx, map[string]string{"pool": "egress"})
	if err != nil || len(items) != 1 {
		t.Errorf("ListByTag = %v, %v", items, err)
	}
	if diff := cmp.Diff([]string{"pool=egress"}, s.sent()[0].URL.Query()["tag"]); diff != "" {
		t.Error(diff)
	}

	for status, body := range map[int]string{200: testCheck, 503: `{"status":"down","hosts":[]}`} {
		p, s = newProvider(t, nil, jsonReply(status, body))
		report, err := p.Check(ctx)
		if err != nil || (report.Status == Down) != (status == 503) || len(s.sent()) != 1 {
			t.Errorf("Check with %d = %v, %v in %d requests", status, report, err, len(s.sent()))
		}
	}
}

func TestCreate_userDataThatIsNoText(t *testing.T) {
	p, s := newProvider(t, func(o *Options) { o.Wait = 90e9 }, jsonReply(200, testBody))
	if _, err := p.Create(t.Context(), CreateRequest{Name: "proxy-1", Placement: "p", UserData: Secret{0x1f, 0x8b, 0xff}}); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(s.body(0)); got != `{"cloudInitBase64":"H4v/","name":"proxy-1","placement":"p"}` {
		t.Errorf("body %s", got)
	}
	if got := s.sent()[0].Header.Get("Prefer"); got != "wait=90" {
		t.Errorf("Prefer = %q", got)
	}
}

// TestForeignAnswers_neverForgetAMachine: rule E4.
func TestForeignAnswers_neverForgetAMachine(t *testing.T) {
	html := func(status int) reply {
		return reply{status: status, contentType: "text/html", body: "<html>proxy</html>"}
	}
	other := strings.ReplaceAll(testBody, "proxy-1", "proxy-2")
	cases := []struct {
		name string
		give reply
		to   string // the methods that must not believe it; "" is all
	}{
		{"bare 404", reply{status: 404}, ""},
		{"404 text", reply{status: 404, contentType: "text/plain", body: "404 page not found"}, ""},
		{"404 HTML", html(404), ""},
		{"200 HTML", html(200), ""},
		{"200 empty", reply{status: 200}, ""},
		{"204 to a question", reply{status: 204}, "Create Get ListByTag Check"},
		{"200 JSON of another", jsonReply(200, `{"message":"welcome"}`), ""},
		{"404 JSON", jsonReply(404, `{"kind":"NotFound","reason":"InstanceNotFound","status":404}`), ""},
		{"NotFound with status 200", problemReply(200, "NotFound", "InstanceNotFound"), ""},
		{"NotFound with status 503", problemReply(503, "NotFound", "InstanceNotFound"), ""},
		{"problem with another status", reply{status: 404, contentType: "application/problem+json", body: `{"status":410,"kind":"NotFound","reason":"X"}`}, ""},
		{"problem without a kind", reply{status: 404, contentType: "application/problem+json", body: `{"status":404,"reason":"X"}`}, ""},
		{"problem of an unknown kind", problemReply(404, "Gone", "X"), ""},
		{"problem without a reason", problemReply(404, "NotFound", ""), ""},
		{"problem that is no JSON", reply{status: 404, contentType: "application/problem+json", body: "<html>"}, ""},
		{"NotFound to no question of one", problemReply(404, "NotFound", "InstanceNotFound"), "Create Delete ListByTag Check"},
		{"redirect", reply{status: 302, header: map[string]string{"Location": "/login"}}, ""},
		{"another instance", jsonReply(200, other), "Create Get"},
		{"instance without an id", jsonReply(200, `{"state":"Running"}`), "Create Get"},
		{"list cut short", jsonReply(200, `{"items":[],"unreachable":[{"host":"h2","reason":"Unreachable"}]}`), "ListByTag"},
		{"list without unreachable", jsonReply(200, `{"items":[]}`), "ListByTag"},
		{"list without items", jsonReply(200, `{"unreachable":[]}`), "ListByTag"},
		{"list of others", jsonReply(200, `{"items":[{"id":"hosts/h1/domains/a","tags":{}}],"unreachable":[]}`), "ListByTag"},
		{"report without a status", jsonReply(503, `{"hosts":[]}`), "Check"},
		{"instance marked as a list", jsonReply(200, testList), "Create Get"},
		{"cut within the body", reply{contentType: "application/json", body: testBody[:40], cut: true}, ""},
		{"cut before the head", reply{cut: true}, ""},
	}
	for _, c := range cases {
		for name, call := range methods {
			if c.to != "" && !strings.Contains(c.to, name) {
				continue
			}
			t.Run(c.name+" "+name, func(t *testing.T) {
				p, _ := newProvider(t, nil, c.give)
				err := call(t.Context(), p)
				if !errors.Is(err, ErrTransient) || errors.Is(err, ErrNotFound) {
					t.Errorf("got %v, want it Transient", err)
				}
			})
		}
	}
}

func TestProblems_kinds(t *testing.T) {
	sentinels := []error{ErrNotFound, ErrPermanent, ErrTransient, ErrQuotaExceeded}
	cases := []struct {
		give reply
		want error
	}{
		{problemReply(404, "NotFound", "InstanceNotFound"), ErrNotFound},
		{problemReply(404, "Permanent", "RouteNotFound"), ErrPermanent},
		{problemReply(409, "Permanent", "UIDMismatch"), ErrPermanent},
		{problemReply(401, "Permanent", "Unauthorized"), ErrPermanent},
		{problemReply(503, "Transient", "Unreachable"), ErrTransient},
		{problemReply(507, "QuotaExceeded", "PoolFull"), ErrQuotaExceeded},
	}
	for _, c := range cases {
		p, _ := newProvider(t, nil, c.give)
		_, err := p.Get(t.Context(), testID)
		for _, s := range sentinels {
			if got, want := errors.Is(err, s), errors.Is(c.want, s); got != want {
				t.Errorf("%d: %v is %v: %v", c.give.status, err, s, got)
			}
		}
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Status != c.give.status || e.RequestID != "req-1" || e.Message != "why" || e.Provider != "edge" {
			t.Errorf("%d: %+v", c.give.status, e)
		}
		if !strings.HasPrefix(err.Error(), "kvm2 edge: get "+testID+": why (") {
			t.Errorf("text %q", err)
		}
	}
}

// TestIDs_neverBecomeOtherPaths: an id of ".." would call DELETE /.
func TestIDs_neverBecomeOtherPaths(t *testing.T) {
	p, s := newProvider(t, nil, reply{status: 204})
	for _, id := range []string{
		"", ".", "..", "../..", "/", "hosts", "hosts/h1", "hosts/h1/domains/", "hosts/h1/domains/..", "hosts/../domains/a",
		"hosts/h1/domains/a/console", "hosts/h1/domains/a?uid=x", "hosts/h1/domains/a#", "hosts/H1/domains/a", "hosts/h1/domains/a\n",
		"hosts%2Fh1%2Fdomains%2Fa", " hosts/h1/domains/a", "hosts/h1/domains/" + strings.Repeat("a", 64),
	} {
		_, getErr := p.Get(t.Context(), id)
		for _, err := range []error{getErr, p.Delete(t.Context(), id, "u")} {
			if e, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, ErrPermanent) || e.Reason != ReasonMalformedID {
				t.Errorf("id %q: %v", id, err)
			}
		}
	}
	if n := len(s.sent()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestErrors_everyOneIsWrappedWithTheConfiguredName(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range methods {
		p, _ := newProvider(t, nil, problemReply(422, "Permanent", "Misconfigured"))
		for _, err := range []error{call(t.Context(), p), call(gone, p)} {
			if err == nil || !strings.HasPrefix(err.Error(), "kvm2 edge: ") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := call(gone, p); !errors.Is(err, context.Canceled) || !errors.Is(err, ErrTransient) {
			t.Errorf("%s with an ended context: %v", name, err)
		}
	}
}

func TestTracing_isContinued(t *testing.T) {
	before := otel.GetTextMapPropagator()
	t.Cleanup(func() { otel.SetTextMapPropagator(before) })
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	}))
	// A program that has set no propagator still has its traces continued.
	for name, set := range map[string]propagation.TextMapPropagator{
		"none": propagation.NewCompositeTextMapPropagator(), "the usual one": propagation.TraceContext{},
	} {
		otel.SetTextMapPropagator(set)
		p, s := newProvider(t, func(o *Options) { o.UserAgent = "operator/1" }, jsonReply(200, testBody))
		if _, err := p.Get(ctx, testID); err != nil {
			t.Fatal(err)
		}
		got := s.sent()[0].Header
		want := []string{"00-01000000000000000000000000000000-0200000000000000-01"}
		if diff := cmp.Diff(want, got.Values("Traceparent")); diff != "" || got.Get("User-Agent") != "operator/1" {
			t.Errorf("propagator %s: User-Agent %q, Traceparent (-want +got):\n%s", name, got.Get("User-Agent"), diff)
		}
	}
}

func TestAPI_reachesTheRest(t *testing.T) {
	ask := func(p *Provider, op string, send func(*Client) (*http.Response, error), into any) error {
		res, err := send(p.API()) //nolint:bodyclose // Answer closes it
		return p.Answer(op, res, err, into)
	}
	placements := func(api *Client) (*http.Response, error) { return api.ListPlacements(t.Context()) }
	console := func(api *Client) (*http.Response, error) {
		return api.GetConsole(t.Context(), testID, nil)
	}
	pull := func(api *Client) (*http.Response, error) {
		return api.PullImage(t.Context(), "debian-13", nil)
	}

	p, _ := newProvider(t, nil, jsonReply(200, `{"items":[{"name":"p","host":"h","image":"i","size":"s"}]}`))
	var list PlacementList
	if err := ask(p, "list placements", placements, &list); err != nil || list.Items[0].Name != "p" {
		t.Errorf("%v, %v", list, err)
	}
	var text []byte
	p, _ = newProvider(t, nil, reply{status: 200, contentType: "text/plain", body: "login:"})
	if err := ask(p, "read console", console, &text); err != nil || string(text) != "login:" {
		t.Errorf("%q, %v", text, err)
	}
	p, _ = newProvider(t, nil, reply{status: 202})
	if err := ask(p, "pull image", pull, nil); err != nil {
		t.Error(err)
	}

	for _, c := range []struct {
		give reply
		want error
	}{
		{problemReply(404, "NotFound", "InstanceNotFound"), ErrNotFound},
		{reply{status: 404}, ErrTransient},
		{reply{status: 200, contentType: "text/html", body: "<html>"}, ErrTransient},
		{reply{cut: true}, ErrTransient},
	} {
		p, s := newProvider(t, nil, c.give)
		err := ask(p, "list placements", placements, &list)
		if !errors.Is(err, c.want) || !strings.HasPrefix(err.Error(), "kvm2 edge: list placements: ") || len(s.sent()) != 1 {
			t.Errorf("%+v: %v in %d requests", c.give, err, len(s.sent()))
		}
	}
}

func TestNewProvider_options(t *testing.T) {
	for _, o := range []Options{
		{},
		{Name: "n"},
		{Name: "n", Server: "kvm2d:8080"},
		{Name: "n", Server: "ftp://h"},
		{Name: "n", Server: "http://u:secret@h"},
		{Server: "http://h"},
		{Name: "n", Server: "http://h", Wait: -1},
	} {
		if _, err := NewProvider(o); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestServer_mayHaveAPath(t *testing.T) {
	p, s := newProvider(t, func(o *Options) { o.Server += "/kvm2d" }, jsonReply(200, testBody))
	if _, err := p.Get(t.Context(), testID); err != nil {
		t.Fatal(err)
	}
	if got, want := s.sent()[0].URL.EscapedPath(), "/kvm2d/instances/hosts%2Fh1%2Fdomains%2Fproxy-1"; got != want {
		t.Errorf("path %s, want %s", got, want)
	}
}

func TestSecrets_areNotPrinted(t *testing.T) {
	const sentinel = "s3ntinel-9d1f"
	path := tokenPath(t)
	writeToken(t, path, "token-"+sentinel, 0)
	r := CreateRequest{Name: "proxy-1", Placement: "p", UserData: Secret(sentinel)}
	var out strings.Builder
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "request", r, "data", r.UserData)
	fmt.Fprintf(&out, "%v %+v %#v %s %x", r, r, r, r.UserData, r.UserData)
	for _, give := range []reply{problemReply(400, "Permanent", "InvalidRequest"), {status: 500}, {cut: true}} {
		p, s := newProvider(t, func(o *Options) { o.TokenFile = path }, give)
		_, err := p.Create(t.Context(), r)
		out.WriteString(err.Error() + fmt.Sprintf("%+v", err))
		if !strings.Contains(s.body(0), sentinel) || !strings.Contains(s.sent()[0].Header.Get("Authorization"), sentinel) {
			t.Error("the secrets were not sent: the test proves nothing")
		}
	}
	if strings.Contains(out.String(), sentinel) || strings.Contains(out.String(), fmt.Sprintf("%x", sentinel)) {
		t.Errorf("a secret came out:\n%s", out.String())
	}
}

func TestDependencies_staySmall(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	if found := regexp.MustCompile(`(?m)^.*(go-libvirt|x/crypto/ssh|chi|kin-openapi|yaml).*$`).FindAll(out, -1); found != nil {
		t.Errorf("dependencies that callers would have to carry: %s", found)
	}
}
