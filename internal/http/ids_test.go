package http

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// rawRequest has path as it stood on the wire.
func rawRequest(t *testing.T, method, path string) *http.Request {
	t.Helper()
	u, err := url.ParseRequestURI(path)
	if err != nil {
		t.Fatalf("path %q: %v", path, err)
	}
	r := request(method, "/", "")
	r.URL = u
	return r
}

func TestIDs_bothForms(t *testing.T) {
	const id = "hosts/h1/domains/proxy-1"
	cases := []struct{ path, id, call string }{
		{"/instances/hosts%2Fh1%2Fdomains%2Fproxy-1", id, "Get"},
		{"/instances/hosts%2fh1%2fdomains%2fproxy-1", id, "Get"},
		{"/instances/hosts/h1/domains/proxy-1", id, "Get"},
		{"/instances/hosts%2Fh1%2Fdomains%2Fproxy-1/console", id, "Console"},
		{"/instances/hosts/h1/domains/proxy-1/console", id, "Console"},
		{"/instances/hosts/h1/domains/console", "hosts/h1/domains/console", "Get"},
		{"/instances/hosts/h1/domains/console/console", "hosts/h1/domains/console", "Console"},
		{"/instances/hosts/domains/domains/hosts", "hosts/domains/domains/hosts", "Get"},
	}
	for _, c := range cases {
		t.Run(c.path, func(t *testing.T) {
			h := newHarness(t, &fakeService{})
			w := h.do(rawRequest(t, http.MethodGet, c.path))
			if w.Code != http.StatusOK {
				t.Fatalf("got %d: %s", w.Code, w.Body)
			}
			if h.service.id != c.id || h.service.called()[0] != c.call {
				t.Errorf("got %v of %q, want %s of %q", h.service.called(), h.service.id, c.call, c.id)
			}
		})
	}
}

func TestIDs_everyOtherShapeIsMalformed(t *testing.T) {
	paths := []string{
		"/instances/",
		"/instances//",
		"/instances/..",
		"/instances/.",
		"/instances/%2e%2e",
		"/instances/../health",
		"/instances/hosts",
		"/instances/hosts/h1",
		"/instances/hosts/h1/",
		"/instances/hosts/h1/domains",
		"/instances/hosts/h1/domains/",
		"/instances/hosts/h1/domains/a/",
		"/instances/hosts/h1/domains/a/console/",
		"/instances/hosts/h1/domains/a/consoles",
		"/instances/hosts/h1/domains/a/b/console",
		"/instances/hosts//domains/a",
		"/instances/hosts/h1/domains/..",
		"/instances/hosts/h1/domains/A",
		"/instances/hosts/h1/domains/a.b",
		"/instances/hosts/h1/domains/a%00",
		"/instances/hosts/h1/domains/%61",
		"/instances/hosts%2Fh1/domains/a",
		"/instances/hosts/h1%2Fdomains%2Fa",
		"/instances/hosts%2Fh1%2Fdomains%2Fa%00",
		"/instances/hosts%2Fh1%2Fdomains%2Fa%0A",
		"/instances/hosts%2Fh1%2Fdomains%2F..",
		"/instances/hosts%252Fh1%252Fdomains%252Fa",
		"/instances/hosts%2Fh1%2Fdomains%2Fa/",
		"/instances/hosts%2Fh1%2Fdomains%2Fa%2Fconsole",
		"/instances/hosts%2Fh1%2Fdomains%2Fa/console/x",
		"/instances/%2Fhosts%2Fh1%2Fdomains%2Fa",
		"/instances/pools/h1/domains/a",
		"/instances/hosts/h1/domains/" + strings.Repeat("a", 8192),
		"/instances/" + strings.Repeat("%2F", 2700),
		"/instances/hosts/h1/domains/" + strings.Repeat("a", 64),
	}
	for _, path := range paths {
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			h := newHarness(t, &fakeService{})
			w := h.do(rawRequest(t, method, path))
			p := problemIn(t, w)
			if w.Code != http.StatusBadRequest || p.Reason != string(instance.ReasonMalformedID) || p.Kind != "Permanent" {
				t.Errorf("%s %.80s: got %d %s", method, path, w.Code, p.Reason)
			}
			if calls := h.service.called(); calls != nil {
				t.Errorf("%s %.80s: service was called: %v", method, path, calls)
			}
		}
	}
}

func FuzzSplitInstancePath(f *testing.F) {
	for _, s := range []string{"hosts/h1/domains/a", "hosts%2Fh1%2Fdomains%2Fa/console", "..", "%", "hosts%2Fh1/domains/a", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		id, tail, err := splitInstancePath(rest)
		if err != nil {
			if instance.ReasonOf(err) != instance.ReasonMalformedID {
				t.Errorf("reason %s", instance.ReasonOf(err))
			}
			return
		}
		if tail != "" && tail != "/console" {
			t.Errorf("tail %q", tail)
		}
		if back, err := instance.ParseID(id.String()); err != nil || back != id {
			t.Errorf("id %v does not round-trip", id)
		}
	})
}
