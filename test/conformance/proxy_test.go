package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// exchange is a request on its way through a proxy, and then its answer.
type exchange struct {
	method string
	path   string // escaped, without the query
	query  string
	header http.Header
	body   []byte

	status int
	answer http.Header
	out    []byte
}

// mutant is a server that breaks one rule: a proxy that meddles.
type mutant struct {
	name string
	// red is the one rule that must turn red.
	red string
	// before meddles with the request. When it sets a status, that is the answer.
	before func(x *exchange)
	// after meddles with the answer.
	after func(x *exchange)
}

const sesame = "open-sesame"

// startProxy serves what is at target, to callers with the right token, and
// meddles as m says.
func startProxy(t *testing.T, target string, m mutant) *httptest.Server {
	t.Helper()
	client := &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 8},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler) // the client left
		}
		x := &exchange{method: r.Method, path: r.URL.EscapedPath(), query: r.URL.RawQuery, header: r.Header.Clone(), body: body, answer: http.Header{}}
		guard(x)
		for _, step := range []func(*exchange){m.before, func(x *exchange) { x.forward(r, client, target) }, m.after} {
			if step != nil {
				step(x)
			}
		}
		maps.Copy(w.Header(), x.answer)
		if r.Method != http.MethodHead {
			w.Header().Set("Content-Length", strconv.Itoa(len(x.out)))
		}
		w.WriteHeader(x.status)
		_, _ = w.Write(x.out) // the client may be gone
	}))
	t.Cleanup(func() {
		server.Close()
		client.CloseIdleConnections()
	})
	return server
}

// guard answers callers without the token.
func guard(x *exchange) {
	if x.header.Get("Authorization") != "Bearer "+sesame {
		x.refuse(http.StatusUnauthorized, "Permanent", "Unauthorized")
		x.answer.Set("WWW-Authenticate", "Bearer")
	}
}

// forward gets the answer from target unless there is one already.
func (x *exchange) forward(r *http.Request, client *http.Client, target string) {
	if x.status != 0 {
		return
	}
	url := target + x.path
	if x.query != "" {
		url += "?" + x.query
	}
	req, err := http.NewRequestWithContext(r.Context(), x.method, url, bytes.NewReader(x.body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	req.Header = x.header.Clone()
	req.Header.Del("Expect")
	resp, err := client.Do(req)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = resp.Body.Close() }()
	x.status, x.answer = resp.StatusCode, resp.Header
	if x.out, err = io.ReadAll(resp.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// refuse makes the answer a problem that is right in itself.
func (x *exchange) refuse(status int, kind, reason string) {
	id := x.header.Get("X-Request-Id")
	if id == "" {
		id = "made-by-the-proxy"
	}
	x.status = status
	x.answer = http.Header{"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"}, "X-Request-Id": {id}}
	p := map[string]any{"type": "about:blank", "title": reason, "status": status, "instance": id, "kind": kind, "reason": reason}
	if kind == "Transient" {
		x.answer.Set("Retry-After", "1")
		p["retryAfterSeconds"] = 1
	}
	x.out, _ = json.Marshal(p)
}

// is reports whether the request is of that method and its path contains part.
func (x *exchange) is(method, part string) bool {
	return x.method == method && strings.Contains(x.path, part)
}

// creates reports whether the request is a real create of the instance with that
// role in the suite.
func (x *exchange) creates(role string) bool {
	return x.method == http.MethodPost && x.query == "" && bytes.Contains(x.body, []byte("-"+role+`"`))
}

// edit changes the answer's JSON object.
func (x *exchange) edit(change func(o map[string]any)) {
	var o map[string]any
	if json.Unmarshal(x.out, &o) != nil || o == nil {
		return
	}
	change(o)
	x.out, _ = json.Marshal(o)
}

// entries changes each entry of the answer's array of that name.
func (x *exchange) entries(name string, change func(o map[string]any)) {
	x.edit(func(o map[string]any) {
		all, _ := o[name].([]any)
		for _, entry := range all {
			if e, ok := entry.(map[string]any); ok {
				change(e)
			}
		}
	})
}

// instances changes each instance in the answer.
func (x *exchange) instances(change func(o map[string]any)) {
	if x.status > 299 || !strings.HasPrefix(x.path, "/instances") {
		return
	}
	x.edit(func(o map[string]any) {
		if o["name"] != nil {
			change(o)
		}
	})
	x.entries("items", change)
}

// without removes the entries of the list that drop picks.
func (x *exchange) without(drop func(o map[string]any) bool) {
	x.edit(func(o map[string]any) {
		all, _ := o["items"].([]any)
		kept := []any{}
		for _, entry := range all {
			if e, ok := entry.(map[string]any); !ok || !drop(e) {
				kept = append(kept, entry)
			}
		}
		o["items"] = kept
	})
}

// double repeats the entries of the list that pick picks.
func (x *exchange) double(pick func(o map[string]any) bool) {
	x.edit(func(o map[string]any) {
		all, _ := o["items"].([]any)
		double := []any{}
		for _, entry := range all {
			double = append(double, entry)
			if e, ok := entry.(map[string]any); ok && pick(e) {
				double = append(double, entry)
			}
		}
		o["items"] = double
	})
}

// role reports whether an instance has that role in the suite.
func role(o map[string]any, role string) bool {
	return strings.HasSuffix(fmt.Sprint(o["name"]), "-"+role)
}
