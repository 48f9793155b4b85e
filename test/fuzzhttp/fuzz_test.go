package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var contractOnce = sync.OnceValues(loadContract)

func testContract(t *testing.T) *contract {
	t.Helper()
	c, err := contractOnce()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func testMaker(t *testing.T, seed uint64) *maker {
	t.Helper()
	return &maker{Rand: rand.New(rand.NewPCG(seed, 0)), contract: testContract(t), host: "127.0.0.1:1"}
}

func TestMaker_sameSeedSameRequests(t *testing.T) {
	a, b, other := testMaker(t, 7), testMaker(t, 7), testMaker(t, 8)
	differs := false
	for i := range 3000 {
		x, y := a.next().bytes(), b.next().bytes()
		if !bytes.Equal(x, y) {
			t.Fatalf("request %d differs:\n%q\n%q", i, x, y)
		}
		differs = differs || !bytes.Equal(x, other.next().bytes())
	}
	if !differs {
		t.Error("another seed makes the same requests")
	}
}

func TestMaker_everyOperationIsFoundAgain(t *testing.T) {
	m := testMaker(t, 1)
	for _, op := range m.contract.operations {
		for range 50 {
			r := m.make(op)
			got, _, ok := m.contract.find(r.method, r.target)
			if !ok || got.name != op.name {
				t.Errorf("%s %s: found %q, want %q", r.method, r.target, got.name, op.name)
			}
		}
	}
}

func TestContract_find(t *testing.T) {
	c := testContract(t)
	for _, tt := range []struct{ method, target, want string }{
		{"GET", "/instances", "listInstances"},
		{"HEAD", "/instances?x=y", "listInstances"},
		{"GET", "/instances/hosts/h/domains/a", "getInstance"},
		{"GET", "/instances/hosts%2Fh%2fdomains%2Fa/console", "getConsole"},
		{"GET", "http://elsewhere/health", "getHealth"},
		{"POST", "/images/%2F/pull", "pullImage"},
		{"POST", "/images/ü%2F/pull", "pullImage"},
		{"GET", "/instances/", ""},
		{"GET", "/instances/hosts/h/domains/A", ""},
		{"GET", "/instances/hosts%252Fh%252Fdomains%252Fa", ""},
		{"GET", "/instances/hosts/h/domains/a/", ""},
		{"GET", "/instances/hosts/h/domains/%61", ""},
		{"PUT", "/instances", ""},
		{"DELETE", "/images/", ""},
		{"GET", "*", ""},
		{"GET", "/%zz", ""},
	} {
		if got, _, _ := c.find(tt.method, tt.target); got.name != tt.want {
			t.Errorf("find(%s %s) = %q, want %q", tt.method, tt.target, got.name, tt.want)
		}
	}
}

// good is an answer of the daemon to GET /version.
func good() *answer {
	return &answer{
		status: http.StatusOK, body: []byte(`{"version":"v1","goVersion":"go1.26"}`),
		header: http.Header{"X-Request-Id": {"r-1"}, "Cache-Control": {"no-store"}, "Content-Type": {"application/json"}},
	}
}

// refusal is a problem of the daemon.
func refusal(status int, kind, reason string) *answer {
	a := good()
	a.status, a.header["Content-Type"] = status, []string{"application/problem+json"}
	a.body = fmt.Appendf(nil, `{"type":"https://x/#y","title":"t","status":%d,"kind":%q,"reason":%q,"instance":"r-1"}`, status, kind, reason)
	if kind == "Transient" || kind == "QuotaExceeded" {
		a.header["Retry-After"] = []string{"5"}
		a.body = bytes.Replace(a.body, []byte(`"instance"`), []byte(`"retryAfterSeconds":5,"instance"`), 1)
	}
	return a
}

func changed(a *answer, change func(*answer)) *answer {
	change(a)
	return a
}

// TestJudge: the fuzzer sees what is wrong, and only that.
func TestJudge(t *testing.T) {
	version := request{method: http.MethodGet, target: "/version"}
	with := func(change func(*request)) request {
		r := version
		change(&r)
		return r
	}
	for _, tt := range []struct {
		name    string
		request request
		answer  *answer
		want    string // "" is nothing wrong
	}{
		{"success", version, good(), ""},
		{"refusal", version, refusal(400, "Permanent", "InvalidRequest"), ""},
		{"overload", version, refusal(503, "Transient", "Overloaded"), ""},
		{"no such path", with(func(r *request) { r.target = "/nope" }), refusal(404, "Permanent", "RouteNotFound"), ""},
		{"page", with(func(r *request) { r.target = "/docs?x" }), changed(good(), func(a *answer) { a.header.Set("Content-Type", "text/html"); a.body = nil }), ""},
		{"left", with(func(r *request) { r.unfinished = true }), refusal(499, "Transient", "Cancelled"), ""},
		{"refused by net/http", with(func(r *request) { r.odd = true }), &answer{400, http.Header{"Content-Type": {"text/plain"}}, nil}, ""},

		{"undeclared status", version, refusal(422, "Permanent", "UnknownSize"), "status 422 is not declared"},
		{"internal fault", version, refusal(500, "Transient", "Internal"), "internal fault"},
		{"no such schema", version, changed(good(), func(a *answer) { a.body = []byte(`{"version":7}`) }), "breaks the contract"},
		{"no problem", version, changed(refusal(400, "Permanent", "InvalidRequest"), func(a *answer) { a.header.Set("Content-Type", "text/html") }), "no problem"},
		{"another status inside", version, changed(refusal(403, "Permanent", "Forbidden"), func(a *answer) { a.status = 400 }), "says status 403"},
		{"another request id", version, changed(refusal(400, "Permanent", "X"), func(a *answer) { a.header.Set("X-Request-Id", "r-2") }), "request id"},
		{"unknown kind", version, refusal(400, "Odd", "X"), "kind"},
		{"no Retry-After", version, changed(refusal(503, "Transient", "X"), func(a *answer) { a.header.Del("Retry-After") }), "Retry-After"},
		{"cacheable", version, changed(good(), func(a *answer) { a.header.Del("Cache-Control") }), "cached"},
		{"user data", version, changed(good(), func(a *answer) { a.body = []byte(`{"version":"` + sentinel + `","goVersion":"go"}`) }), "user data"},
		{"vanished machine", with(func(r *request) { r.target = "/nope" }), refusal(404, "NotFound", "InstanceNotFound"), "no operation"},
		{"answer to nothing", with(func(r *request) { r.target = "/nope" }), good(), "no operation"},
		{"client stayed", version, refusal(499, "Transient", "Cancelled"), "did not leave"},
		{"net/http refused a good one", version, &answer{400, http.Header{"Content-Type": {"text/plain"}}, nil}, "refused a request that is one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			result := newResult()
			judge(t.Context(), testContract(t), &tt.request, tt.answer, nil, result)
			got := strings.Join(result.failures, "\n")
			if tt.want == "" && got != "" {
				t.Errorf("got failures %s", got)
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("got failures %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSend_findsABrokenServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write([]byte("<html>"))
	}))
	defer server.Close()
	result := newResult()
	send(t.Context(), testContract(t), strings.TrimPrefix(server.URL, "http://"), result, plan{took: answerLimit, seed: 1, senders: 2})
	if !result.full() || result.err() == nil {
		t.Errorf("got %d failures, want a run that ends early", len(result.failures))
	}
	var table bytes.Buffer
	result.print(&table)
	for _, want := range []string{"operation", "createInstance", "(cut off)", "failure 1:", "sent \""} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
}

func TestExchange_unfinishedEndsAtOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := r.Body.Read(make([]byte, 10)); err == nil {
			_, err = r.Body.Read(make([]byte, 10))
			if err == nil {
				t.Error("the body goes on")
			}
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	defer server.Close()
	r := &request{method: "POST", target: "/", version: "HTTP/1.1", body: []byte("1234"), unfinished: true}
	r.set("Host", "x")
	r.set("Content-Length", "9")
	a, err := exchange(context.Background(), strings.TrimPrefix(server.URL, "http://"), r)
	if err == nil && a.status != http.StatusTeapot {
		t.Errorf("got %d", a.status)
	}
}
