package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// sentinel is in all user data that is sent; it may come out nowhere.
const sentinel = "5entinel-of-the-user-data"

// request is one as it goes over the wire.
type request struct {
	method, target, version string
	headers                 [][2]string
	body                    []byte
	// odd: the message itself is spoiled, so that net/http may refuse it or hang
	// up before it is a request at all.
	odd bool
	// unfinished: it ends before the end that it announced.
	unfinished bool
}

// bytes is the whole message.
func (r *request) bytes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s %s\r\n", r.method, r.target, r.version)
	for _, h := range r.headers {
		fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
	}
	b.WriteString("\r\n")
	b.Write(r.body)
	return b.Bytes()
}

// set replaces a header, or adds it.
func (r *request) set(name, value string) {
	for i := range r.headers {
		if strings.EqualFold(r.headers[i][0], name) {
			r.headers[i][1] = value
			return
		}
	}
	r.add(name, value)
}

func (r *request) add(name, value string) { r.headers = append(r.headers, [2]string{name, value}) }

// setBody replaces the body and says how long it is.
func (r *request) setBody(body []byte) {
	r.body = body
	r.set("Content-Length", strconv.Itoa(len(body)))
}

// maker makes requests. The same source of chance makes the same ones.
type maker struct {
	*rand.Rand
	contract *contract
	host     string
}

func pick[T any](m *maker, from ...T) T { return from[m.IntN(len(from))] }

// oneIn is true once in n.
func (m *maker) oneIn(n int) bool { return m.IntN(n) == 0 }

// words are what values are made of where their name says what they mean: what
// is there, what is not, and few enough that requests meet one another.
var words = map[string][]string{
	"name":      {"a", "b", "proxy-1", "proxy-2", "proxy-3"},
	"image":     {"debian-13", "debian-13", "debian-13", "none-such"},
	"host":      {"sim-1", "sim-2", "sim-1", "sim-2", "gone"},
	"placement": {"sim-1", "sim-2", "sim-1", "sim-2", "gone"},
	"size":      {"small", "medium", "gone"},
	"uid":       {"u-1", "u-2", "u-1"},
	"cloudInit": {"#cloud-config\npassword: " + sentinel + "\n"},
	"tag":       {"pool=egress", "pool=other", "a/b.c-d_e=x=y"},
	"identity":  {"71b2b574d8dc", "0", "abc"},
	"Prefer":    {"wait=0", "wait=1", "wait=2", "respond-async, wait=1"},
}

// make makes a request for op that keeps the contract.
func (m *maker) make(op operation) *request {
	r := &request{method: op.route.Method, version: "HTTP/1.1"}
	r.add("Host", m.host)
	query, path := url.Values{}, op.route.Path
	for _, p := range op.parameters() {
		switch p.In {
		case openapi3.ParameterInPath:
			path = strings.Replace(path, "{"+p.Name+"}", m.pathValue(p.Name), 1)
		case openapi3.ParameterInQuery:
			if m.oneIn(3) {
				query.Add(p.Name, m.paramValue(p))
			}
		case openapi3.ParameterInHeader:
			r.add(p.Name, m.paramValue(p))
		}
	}
	r.target = path
	if len(query) > 0 {
		r.target += "?" + query.Encode()
	}
	if body := op.route.Operation.RequestBody; body != nil {
		r.add("Content-Type", "application/json")
		text, err := json.Marshal(m.value(body.Value.Content.Get("application/json").Schema.Value, ""))
		if err != nil {
			panic(err) // a value of plain maps and strings
		}
		r.setBody(text)
	}
	return r
}

func (m *maker) pathValue(name string) string {
	if name != "id" {
		return pick(m, words["image"]...)
	}
	id := "hosts/" + pick(m, words["host"]...) + "/domains/" + pick(m, words["name"]...)
	if m.oneIn(2) {
		return url.PathEscape(id)
	}
	return id
}

func (m *maker) paramValue(p *openapi3.Parameter) string {
	if known := words[p.Name]; known != nil {
		return pick(m, known...)
	}
	return fmt.Sprint(m.value(p.Schema.Value, p.Name))
}

// value makes one that keeps the schema; name is the property that it is for.
func (m *maker) value(s *openapi3.Schema, name string) any {
	switch {
	case len(s.Enum) > 0:
		return pick(m, s.Enum...)
	case s.Type.Is(openapi3.TypeObject):
		return m.object(s)
	case s.Type.Is(openapi3.TypeBoolean):
		return m.oneIn(2)
	case s.Type.Is(openapi3.TypeInteger):
		low, high := int64(0), int64(1<<20)
		if s.Min != nil {
			low = int64(*s.Min)
		}
		if s.Max != nil {
			high = int64(*s.Max)
		}
		return pick(m, low, high, low+m.Int64N(high-low+1))
	case words[name] != nil:
		return pick(m, words[name]...)
	case s.Example != nil:
		return s.Example
	default:
		return "x"
	}
}

func (m *maker) object(s *openapi3.Schema) map[string]any {
	out := map[string]any{}
	required := map[string]bool{}
	for _, name := range s.Required {
		required[name] = true
	}
	for _, name := range sortedKeys(s.Properties) {
		if required[name] || m.oneIn(3) {
			out[name] = m.value(s.Properties[name].Value, name)
		}
	}
	if s.AdditionalProperties.Schema != nil {
		for range m.IntN(3) {
			out[pick(m, "pool", "a/b", "x.y", "z")] = pick(m, "egress", "", "ünïcode")
		}
	}
	return out
}
