package http

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

var pagePaths = []string{"/", "/docs", "/docs/redoc.js", "/docs/openapi.yaml"}

func showing(o Overview) func(*Options) {
	return func(opts *Options) { opts.Overview = func() Overview { return o } }
}

// busyOverview has something of everything.
func busyOverview(now time.Time) Overview {
	return Overview{
		At: now.Add(-12 * time.Second),
		Report: instance.Report{Status: instance.HealthDegraded, Hosts: []instance.HostHealth{
			{Host: "h1", Ready: true, Reason: instance.ReasonReady, Message: "ready", Latency: 214 * time.Millisecond, Details: instance.HostDetails{
				Pool: "default", PoolCapacityGiB: new(100.0), PoolAvailableGiB: new(25.0), LibvirtVersion: "9.0.0",
			}},
			{Host: "h2", Reason: instance.ReasonUnreachable, Message: "dial h2: connection refused"},
			{Host: "h3", Reason: instance.ReasonMaintenance, Message: "in maintenance"},
		}},
		Page: instance.Page{
			Items: []instance.Instance{
				{ID: instance.ID{Host: "h1", Name: "proxy-1"}, State: instance.Running, IP: netip.MustParseAddr("192.0.2.7"), CreatedAt: now.Add(-26 * time.Hour)},
				{ID: instance.ID{Host: "h1", Name: "proxy-2"}, State: instance.Stopped, StateReason: "paused: I/O error"},
			},
			Unreachable: []instance.UnreachableHost{{Host: "h2", Reason: instance.ReasonUnreachable}},
			Skipped:     3,
		},
		Images: []instance.ImageStatus{
			{Image: "debian-13", Host: "h1", State: instance.ImageDownloading, DoneBytes: 25 << 20, TotalBytes: 100 << 20, BytesPerSecond: 3 << 20, Attempt: 2},
			{Image: "debian-13", Host: "h3", State: instance.ImageReady, SizeBytes: 3 << 30, Overlays: 2},
			{Image: "fedora-43", Host: "h1", State: instance.ImageFailed, Failure: "the checksum is another", Reason: instance.ReasonChecksumMismatch},
			{Image: "fedora-43", Host: "h3", State: instance.ImageAbsent},
		},
	}
}

func TestStatusPage_shows(t *testing.T) {
	service := &fakeService{}
	h := newHarness(t, service, showing(busyOverview(time.Now())))
	w := h.do(request(http.MethodGet, "/", ""))
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
	for _, want := range []string{
		`<title>kvm2d: degraded</title>`, `class="badge busy">degraded<`, `>12 s</time> ago`, `v0.0.0-test`,
		`<article class="card good" data-host="h1">`, `75.0 of 100.0 GiB used`, `<rect width="75%"`, `aria-valuenow="75"`, `<dd>214 ms</dd>`,
		`<article class="card bad" data-host="h2">`, `>dial h2: connection refused<`, `<dt>instances</dt><dd>unknown</dd>`,
		`<article class="card busy" data-host="h3">`, `Those on <b>h2</b> could not be read: Unreachable`, `3 could not be understood`,
		`<tr data-instance="hosts/h1/domains/proxy-1">`, `>192.0.2.7<`, `>1 d 2 h</time>`, `class="badge good">Running<`,
		`class="badge bad">Stopped</span> <span class="quiet">paused: I/O error<`,
		`25.0 MiB of 100.0 MiB, 25 %`, `3.0 MiB/s, attempt 2`, `3.0 GiB, in use by 2`, `the checksum is another`, `class="badge idle">absent<`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if got := service.called(); len(got) != 0 {
		t.Errorf("the page asked the service for %v", got)
	}
	if t.Failed() {
		t.Log(w.Body.String())
	}
}

func TestStatusPage_beforeTheFirstLook(t *testing.T) {
	w := newHarness(t, &fakeService{}).do(request(http.MethodGet, "/", ""))
	if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, "no host was looked at") || strings.Contains(body, "<section>") {
		t.Errorf("got %d %s", w.Code, body)
	}
}

func TestStatusPage_escapesWhatHostsSay(t *testing.T) {
	const hostile = `"'><script>alert(1)</script><img src=x onerror=alert(2)>{{.}}</title></style>` + "\x00\u2028\xff"
	now := time.Now()
	o := Overview{
		At: now,
		Report: instance.Report{Status: hostile, Hosts: []instance.HostHealth{{Host: hostile, Reason: hostile, Message: hostile, Details: instance.HostDetails{
			Pool: hostile, Hostname: hostile, LibvirtVersion: hostile, DomainType: hostile, PoolCapacityGiB: new(0.0), PoolAvailableGiB: new(-1.0),
		}}}},
		Page: instance.Page{
			Items: []instance.Instance{{
				ID: instance.ID{Host: hostile, Name: hostile}, Image: hostile, Size: hostile, State: hostile, StateReason: hostile,
				Addresses: []instance.Address{{Addr: netip.MustParseAddr("fe80::1%<script>")}}, CreatedAt: now,
			}},
			Unreachable: []instance.UnreachableHost{{Host: hostile, Reason: hostile}},
		},
		Images: []instance.ImageStatus{
			{Image: hostile, Host: hostile, Identity: hostile, State: instance.ImageFailed, Failure: hostile},
			{Image: hostile, Host: hostile, Identity: hostile, State: hostile},
		},
	}
	w := newHarness(t, &fakeService{}, showing(o), func(o *Options) { o.Build.Version = hostile }).do(request(http.MethodGet, "/", ""))
	body := w.Body.String()
	if w.Code != http.StatusOK {
		t.Fatalf("got %d", w.Code)
	}
	if got := strings.Count(body, "<script>"); got != 1 {
		t.Errorf("got %d script elements, want the page's own", got)
	}
	for _, bad := range []string{"<img", "</title></style>", "{{.}}</title>", `="'>`, "\x00"} {
		if strings.Contains(body, bad) {
			t.Errorf("%q is in the page as it came", bad)
		}
	}
	// Every attribute is one of the template's own: none was made by a value.
	tags := regexp.MustCompile(`<[a-zA-Z][^>]*>`)
	for _, tag := range tags.FindAllString(body[strings.Index(body, "<main>"):strings.Index(body, "</main>")], -1) {
		if strings.Contains(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(tag, ""), "onerror") {
			t.Errorf("a value became an attribute: %s", tag)
		}
	}
}

// inline finds the texts of the inline elements of a page.
func inline(t *testing.T, body, element string) string {
	t.Helper()
	found := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllStringSubmatch(body, -1)
	if len(found) != 1 {
		t.Fatalf("got %d inline elements %s, want one", len(found), element)
	}
	return found[0][1]
}

func TestPages_policyAllowsOnlyTheirOwn(t *testing.T) {
	h := newHarness(t, &fakeService{}, showing(busyOverview(time.Now())))
	for _, path := range []string{"/", "/docs"} {
		w := h.do(request(http.MethodGet, path, ""))
		policy, body := w.Header().Get("Content-Security-Policy"), w.Body.String()
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'none'", hashSource(inline(t, body, "script"))} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy lacks %s: %s", path, want, policy)
			}
		}
		if path == "/" && (!strings.Contains(policy, hashSource(inline(t, body, "style"))) || strings.Contains(policy, "unsafe")) {
			t.Errorf("%s: the policy is not that of its style sheet: %s", path, policy)
		}
		if strings.Contains(policy, "unsafe-eval") || regexp.MustCompile(`(?i)https?:|//`).MatchString(regexp.MustCompile(`(?s)<script>.*?</script>`).ReplaceAllString(body, "")) {
			t.Errorf("%s: something from elsewhere is allowed or named", path)
		}
	}
}

func TestPages_whoMayCall(t *testing.T) {
	h := newHarness(t, &fakeService{})
	basic := func(method, path, password string) *http.Request {
		r := httptest.NewRequestWithContext(context.Background(), method, path, http.NoBody)
		r.SetBasicAuth("anybody", password)
		return r
	}
	for _, path := range pagePaths {
		if w := h.do(basic(http.MethodGet, path, testToken)); w.Code != http.StatusOK {
			t.Errorf("%s with the token as password: got %d", path, w.Code)
		}
		for _, password := range []string{"", "wrong"} {
			w := h.do(basic(http.MethodGet, path, password))
			wantProblem(t, w, http.StatusUnauthorized, instance.ReasonUnauthorized)
			if got := strings.Join(w.Header().Values("WWW-Authenticate"), "\n"); !strings.Contains(got, "Bearer ") || !strings.Contains(got, "Basic ") {
				t.Errorf("%s: challenge %q, want both ways", path, got)
			}
		}
		if len(h.do(basic(http.MethodGet, path, testToken)).Header().Values("Set-Cookie")) != 0 {
			t.Errorf("%s sets a cookie", path)
		}
	}
	// A browser sends its password to whatever it is made to ask for: nothing else takes it.
	for _, r := range []*http.Request{
		basic(http.MethodGet, "/instances", testToken), basic(http.MethodDelete, "/instances/hosts/h1/domains/p", testToken),
		basic(http.MethodGet, "/openapi.yaml", testToken), basic(http.MethodGet, "/docsx", testToken), basic(http.MethodGet, "//", testToken),
	} {
		w := h.do(r)
		wantProblem(t, w, http.StatusUnauthorized, instance.ReasonUnauthorized)
		if got := w.Header().Get("WWW-Authenticate"); strings.Contains(got, "Basic") {
			t.Errorf("%s %s: challenge %q", r.Method, r.URL, got)
		}
	}
	if got := h.service.called(); len(got) != 0 {
		t.Errorf("the service was called: %v", got)
	}
}

func TestPages_methods(t *testing.T) {
	h := newHarness(t, &fakeService{}, showing(busyOverview(time.Now())))
	for _, path := range pagePaths {
		get, head := h.do(request(http.MethodGet, path, "")), h.do(request(http.MethodHead, path, ""))
		if head.Code != http.StatusOK || head.Body.Len() != 0 {
			t.Errorf("HEAD %s: got %d with %d bytes", path, head.Code, head.Body.Len())
		}
		for _, name := range []string{"Content-Type", "Content-Length", "Content-Security-Policy"} {
			if diff := cmp.Diff(get.Header().Get(name), head.Header().Get(name)); diff != "" {
				t.Errorf("%s %s of GET and HEAD differ: %s", path, name, diff)
			}
		}
		w := h.do(request(http.MethodPost, path, "{}"))
		wantProblem(t, w, http.StatusMethodNotAllowed, instance.ReasonMethodNotAllowed)
		if got := w.Header().Get("Allow"); got != "GET, HEAD" {
			t.Errorf("%s: Allow = %q", path, got)
		}
	}
	for _, path := range []string{"/docs/", "/docs/redoc.js/", "/docs/..", "/docs/redoc.LICENSE.txt", "/pages/status.html"} {
		wantProblem(t, h.do(request(http.MethodGet, path, "")), http.StatusNotFound, instance.ReasonRouteNotFound)
	}
	for _, line := range h.lines(t) {
		route, _ := line["route"].(string)
		if route != unmatched && !isPage(route) {
			t.Errorf("route %q", route)
		}
	}
}

func TestDocsPage_renderer(t *testing.T) {
	h := newHarness(t, &fakeService{})
	get := func(accept string) *httptest.ResponseRecorder {
		r := request(http.MethodGet, "/docs/redoc.js", "")
		if accept != "" {
			r.Header.Set("Accept-Encoding", accept)
		}
		return h.do(r)
	}
	plain := get("").Body.Bytes()
	if !bytes.Contains(plain, []byte("Redoc")) {
		t.Fatal("the renderer is not Redoc")
	}
	for _, tt := range []struct {
		accept string
		want   string
	}{
		{"", ""},
		{"br, deflate", ""},
		{"gzip;q=0", ""},
		{"gzip; q=0.000, br", ""},
		{"gzip", "gzip"},
		{"br, GZIP ;q=0.5", "gzip"},
		{"deflate, gzip, br", "gzip"},
	} {
		w := get(tt.accept)
		if got := w.Header().Get("Content-Encoding"); got != tt.want || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: got %q, want %q", tt.accept, got, tt.want)
		}
		body := io.Reader(w.Body)
		if tt.want == "gzip" {
			zr, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			body = zr
		}
		if got, err := io.ReadAll(body); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("Accept-Encoding %q: got %d bytes, %v; want %d", tt.accept, len(got), err, len(plain))
		}
	}
}

func TestWords(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		-time.Hour: "0 s", 0: "0 s", 59 * time.Second: "59 s", time.Minute: "1 min", time.Hour - 1: "59 min",
		time.Hour: "1 h 0 min", day - 1: "23 h 59 min", day: "1 d 0 h", 400*day + 5*time.Hour: "400 d 5 h",
	} {
		if got := age(d); got != want {
			t.Errorf("age(%v) = %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{
		-1: "0 B", 0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 3<<30 + 1<<29: "3.5 GiB", 1<<63 - 1: "8.0 EiB",
	} {
		if got := byteText(n); got != want {
			t.Errorf("byteText(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestPoolBar(t *testing.T) {
	for _, tt := range []struct {
		capacity, available float64
		want                bar
	}{
		{100, 100, bar{0, "0.0 of 100.0 GiB used", moodGood}},
		{100, 20, bar{80, "80.0 of 100.0 GiB used", moodBusy}},
		{100, 4.5, bar{95, "95.5 of 100.0 GiB used", moodBad}},
		{100, 120, bar{0, "0.0 of 100.0 GiB used", moodGood}},
		{0, 0, bar{0, "0.0 of 0.0 GiB used", moodBad}},
	} {
		if diff := cmp.Diff(&tt.want, poolBar(tt.capacity, tt.available)); diff != "" {
			t.Errorf("%v of %v available (-want +got):\n%s", tt.available, tt.capacity, diff)
		}
	}
}
