package main

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

// spoil breaks a request in one way.
func (m *maker) spoil(r *request) {
	ways := []func(*request){m.spoilPath, m.spoilQuery, m.spoilQuery, m.spoilHeader, m.spoilHeader, m.spoilMethod}
	if len(r.body) > 0 {
		ways = append(ways, slices.Repeat([]func(*request){m.spoilBody}, 2*len(ways))...)
	}
	if m.oneIn(20) {
		ways = []func(*request){m.spoilMessage}
	}
	pick(m, ways...)(r)
}

var nasty = []string{
	"..", "%2e%2e", "%2E%2E%2F", "%00", "%252F", "%2F", "//", "/", "%", "%zz", "%ff", "ü", "%C3%BC", "a%0d%0ab", ";", "*", "{id}",
	"-a", "A", "a_b", "a b", "a%20b", "hosts", "hosts/sim-1", "hosts%2Fsim-1%2Fdomains", "domains", "console", "pull", "null", "undefined",
	"hosts/sim-1/domains/a/console/", "hosts%2fsim-1%2fdomains%2fa", "hosts%2Fsim-1/domains/a", "$(id)", "'\"<script>", strings.Repeat("a", 64),
}

func (m *maker) spoilPath(r *request) {
	path, query, _ := strings.Cut(r.target, "?")
	segments := strings.Split(path, "/")
	if len(segments) < 2 {
		return // it is spoiled beyond being a path
	}
	at := 1 + m.IntN(len(segments)-1)
	switch m.IntN(6) {
	case 0:
		segments[at] = pick(m, nasty...)
	case 1:
		segments = slices.Insert(segments, at, pick(m, nasty...))
	case 2:
		segments = append(segments, pick(m, "", "console", "x", "..", "%2e"))
	case 3:
		segments[at] = strings.ToUpper(segments[at])
	case 4:
		segments[at] += strings.Repeat(pick(m, "a", "%2F", "%00"), 1<<m.IntN(13))
	case 5:
		segments = []string{"", pick(m, "", "docs", "docs/redoc.js", "docs/openapi.yaml", "docs/", "metrics", "livez", "debug/pprof", "favicon.ico")}
	}
	r.target = strings.Join(segments, "/")
	if query != "" {
		r.target += "?" + query
	}
	r.noteTarget()
}

// noteTarget marks a request whose target is none.
func (r *request) noteTarget() {
	if _, err := url.ParseRequestURI(r.target); err != nil || strings.Contains(r.target, " ") {
		r.odd = true
	}
}

func (m *maker) spoilQuery(r *request) {
	join := "?"
	if strings.Contains(r.target, "?") {
		join = "&"
	}
	name := pick(m, "tag", "host", "state", "partial", "dryRun", "uid", "bytes", "identity", "placement", "surprise", "", "%00", "a[b]")
	value := pick(m, "", "true", "TRUE", "1", "-1", "0", "9223372036854775808", "1e3", "null", "a=b", "=", "%00", "%ff", "%zz", "a;b", "a,b", "ü",
		strings.Repeat("x", 400), "tag=x", "%F0%9F%92%A9", "Running", "running", "+", "%0a")
	r.target += join + pick(m, name+"="+value, name, name+"="+value+"&"+name+"="+value, ";", "&&&", "="+value)
	r.noteTarget()
}

func (m *maker) spoilMethod(r *request) {
	r.method = pick(m, http.MethodHead, http.MethodHead, http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodTrace, http.MethodConnect, "BREW", "get", strings.Repeat("M", 300))
}

func (m *maker) spoilHeader(r *request) {
	long := strings.Repeat("l", 1<<(4+m.IntN(9)))
	switch m.IntN(10) {
	case 0:
		r.set("Content-Type", pick(m, "", "text/plain", "application/json; charset=latin1", "application/json;charset=UTF-8", "application/*", ";", "multipart/form-data", long))
	case 1:
		r.set("Prefer", pick(m, "wait", "wait=", "wait=-1", "wait=1.5", "wait=99999999999999999999", `wait="1"`, "wait=1, wait=2", "WAIT=1", ";;;,", long, "respond-async"))
	case 2:
		r.add("Prefer", pick(m, "wait=1", "wait=0", "handling=strict"))
	case 3:
		r.set("X-Request-Id", pick(m, "", "good-one", "a b", "ü", "<script>", long))
	case 4:
		r.set("traceparent", pick(m, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0-0-0", "ff", long))
	case 5:
		r.set("Authorization", pick(m, "Bearer", "Bearer x", "Basic eDp5", "Basic !!!", "Digest x", long))
	case 6:
		r.set("Host", pick(m, "localhost", "127.0.0.1", "[::1]", "example.org", "localhost:0", "127.0.0.1.example.org"))
	case 7:
		r.set("Content-Encoding", pick(m, "gzip", "identity", "br", "x"))
	case 8:
		r.set("Expect", pick(m, "100-continue", "100-Continue"))
	case 9:
		r.set(pick(m, "Accept", "Accept-Encoding", "If-None-Match", "Range", "X-Forwarded-For", "User-Agent", "X-HTTP-Method-Override", "Upgrade"),
			pick(m, "*", "bytes=0-1", "DELETE", "websocket", "gzip;q=0", long))
	}
}

// spoilMessage breaks what is around the request.
func (m *maker) spoilMessage(r *request) {
	r.odd = true
	switch m.IntN(9) {
	case 0:
		r.version = pick(m, "HTTP/1.0", "HTTP/2.0", "HTTP/0.9", "HTTP/1.1 ", "http/1.1", "")
	case 1:
		r.target = pick(m, "*", "", "http://127.0.0.1/instances", "http://example.org/instances", "example.org:80", "//example.org/", "/ /", "/\x00", "/\x7f")
	case 2:
		r.set("Content-Length", pick(m, "-1", "x", "99999999999999999999", "0", "+5"))
	case 3:
		r.unfinished = true
		r.set("Content-Length", fmt.Sprint(len(r.body)+1+m.IntN(1000)))
	case 4:
		r.add("Transfer-Encoding", pick(m, "chunked", "gzip, chunked", "identity", "x"))
		r.unfinished = true
	case 5:
		r.add("Host", pick(m, "localhost", "", "a b"))
	case 6:
		r.add(pick(m, "X\x00", "X Y", "", "Ü"), "v")
	case 7:
		r.add("X-Odd", pick(m, "a\x00b", "a\rb", "\x7f", strings.Repeat("h", 70<<10)))
	case 8:
		r.setBody(bytes.Repeat([]byte("x"), 1<<20+1+m.IntN(1<<16)))
	}
}
