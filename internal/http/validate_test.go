package http

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/http/gen"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// sentinel is what no answer and no log may hold.
const sentinel = "s3ntinel-5e0cab"

func TestValidation_bodies(t *testing.T) {
	label := "must match ^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
	cases := []struct {
		name, body string
		want       []gen.FieldError
	}{
		{"empty", ` `, []gen.FieldError{{Pointer: "#", Detail: "is not JSON: it ends too early"}}},
		{"cut", `{"name":"` + sentinel, []gen.FieldError{{Pointer: "#", Detail: "is not JSON: it ends too early"}}},
		{"no JSON", `name=` + sentinel, []gen.FieldError{{Pointer: "#", Detail: "is not JSON: fault at byte 2"}}},
		{"array", `["` + sentinel + `"]`, []gen.FieldError{{Pointer: "#", Detail: "must be an object"}}},
		{"null", `null`, []gen.FieldError{{Pointer: "#", Detail: "must be an object"}}},
		{"trailing value", `{"name":"a","placement":"p"} {}`, []gen.FieldError{{Pointer: "#", Detail: "must be one JSON value with nothing after it"}}},
		{"trailing garbage", `{"name":"a","placement":"p"}` + sentinel, []gen.FieldError{{Pointer: "#", Detail: "must be one JSON value with nothing after it"}}},
		{"duplicate key", `{"name":"a","name":"` + sentinel + `","placement":"p"}`, []gen.FieldError{{Pointer: "#/name", Detail: "is there twice"}}},
		{"duplicate tag", `{"name":"a","placement":"p","tags":{"x/y":"1","x/y":"2"}}`, []gen.FieldError{{Pointer: "#/tags/x~1y", Detail: "is there twice"}}},
		{"duplicate by escape", `{"name":"a","n\u0061me":"b","placement":"p"}`, []gen.FieldError{{Pointer: "#/name", Detail: "is there twice"}}},
		{"unknown field", `{"name":"a","placement":"p","colour":"` + sentinel + `"}`, []gen.FieldError{{Pointer: "#/colour", Detail: "unknown field"}}},
		{"many unknown fields", `{"name":"a","placement":"p","b":1,"a":2}`, []gen.FieldError{{Pointer: "#/a", Detail: "unknown field"}, {Pointer: "#/b", Detail: "unknown field"}}},
		{"other case", `{"Name":"a","placement":"p"}`, []gen.FieldError{{Pointer: "#/Name", Detail: "unknown field"}, {Pointer: "#/name", Detail: "is required"}}},
		{"required", `{}`, []gen.FieldError{{Pointer: "#/name", Detail: "is required"}, {Pointer: "#/placement", Detail: "is required"}}},
		{"null is no value", `{"name":"a","placement":"p","uid":null}`, []gen.FieldError{{Pointer: "#/uid", Detail: "must be a string"}}},
		{"wrong types", `{"name":7,"placement":"p","tags":["` + sentinel + `"],"autostart":"yes"}`, []gen.FieldError{
			{Pointer: "#/autostart", Detail: "must be true or false"}, {Pointer: "#/name", Detail: "must be a string"}, {Pointer: "#/tags", Detail: "must be an object"},
		}},
		{"tag value", `{"name":"a","placement":"p","tags":{"k":1e1}}`, []gen.FieldError{{Pointer: "#/tags/k", Detail: "must be a string"}}},
		{"name with dots", `{"name":"` + sentinel + `.example","placement":"p"}`, []gen.FieldError{{Pointer: "#/name", Detail: label}}},
		{"name upper case", `{"name":"Proxy","placement":"p"}`, []gen.FieldError{{Pointer: "#/name", Detail: label}}},
		{"name underscore", `{"name":"a_b","placement":"p"}`, []gen.FieldError{{Pointer: "#/name", Detail: label}}},
		{"name ends in newline", `{"name":"a\n","placement":"p"}`, []gen.FieldError{{Pointer: "#/name", Detail: label}}},
		{"name too long", `{"name":"` + strings.Repeat("a", 64) + `","placement":"p"}`, []gen.FieldError{
			{Pointer: "#/name", Detail: "must have at most 63 characters"}, {Pointer: "#/name", Detail: label},
		}},
		{"name empty", `{"name":"","placement":"p"}`, []gen.FieldError{{Pointer: "#/name", Detail: "must have at least 1 characters"}, {Pointer: "#/name", Detail: label}}},
		{"uid", `{"name":"a","placement":"p","uid":"` + sentinel + ` x"}`, []gen.FieldError{{Pointer: "#/uid", Detail: "must match ^[A-Za-z0-9._:-]*$"}}},
		{"too many tags", `{"name":"a","placement":"p","tags":{` + manyTags(33) + `}}`, []gen.FieldError{{Pointer: "#/tags", Detail: "must have at most 32 entries"}}},
		{"both user data", `{"name":"a","placement":"p","cloudInit":"` + sentinel + `","cloudInitBase64":"YQ=="}`, []gen.FieldError{{Pointer: "#/cloudInitBase64", Detail: "must not be there beside cloudInit"}}},
		{"no base64", `{"name":"a","placement":"p","cloudInitBase64":"` + sentinel + `"}`, []gen.FieldError{{Pointer: "#/cloudInitBase64", Detail: "must be standard base64 with padding"}}},
		{"no UTF-8", "{\"name\":\"a\",\"placement\":\"p\",\"cloudInit\":\"\xff\"}", []gen.FieldError{{Pointer: "#", Detail: "must be UTF-8; send other bytes as cloudInitBase64"}}},
		{"half a character", `{"name":"a","placement":"p","cloudInit":"\ud83d"}`, []gen.FieldError{{Pointer: "#", Detail: `holds a \u escape that is half a character`}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, &fakeService{})
			w := h.do(request(http.MethodPost, "/instances", c.body))
			p := wantProblem(t, w, http.StatusBadRequest, instance.ReasonInvalidRequest)
			if diff := cmp.Diff(c.want, value(p.Errors)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if calls := h.service.called(); calls != nil {
				t.Errorf("service was called: %v", calls)
			}
			if strings.Contains(w.Body.String()+h.log.String(), sentinel) {
				t.Errorf("a value was repeated\n%s\n%s", w.Body, h.log)
			}
		})
	}
}

func manyTags(n int) string {
	tags := make([]string, n)
	for i := range tags {
		tags[i] = fmt.Sprintf(`"k%d":"v"`, i)
	}
	return strings.Join(tags, ",")
}

func TestValidation_parameters(t *testing.T) {
	const id = "/instances/hosts/h1/domains/a"
	cases := []struct {
		method, target string
		want           []gen.FieldError
	}{
		{http.MethodGet, "/instances?surprise=" + sentinel, []gen.FieldError{{Pointer: "query/surprise", Detail: "unknown parameter"}}},
		{http.MethodGet, "/instances?Partial=true", []gen.FieldError{{Pointer: "query/Partial", Detail: "unknown parameter"}}},
		{http.MethodGet, "/health?x", []gen.FieldError{{Pointer: "query/x", Detail: "unknown parameter"}}},
		{http.MethodGet, "/instances?partial=maybe" + sentinel, []gen.FieldError{{Pointer: "query/partial", Detail: "must be true or false"}}},
		{http.MethodGet, "/instances?partial=true&partial=false", []gen.FieldError{{Pointer: "query/partial", Detail: "is there twice"}}},
		{http.MethodGet, "/instances?state=running", []gen.FieldError{{Pointer: "query/state", Detail: "must be one of [Provisioning Running Stopped]"}}},
		{http.MethodGet, "/instances?tag=novalue", []gen.FieldError{{Pointer: "query/tag/0", Detail: "must match ^[A-Za-z0-9._/-]{1,63}="}}},
		{http.MethodGet, "/instances?tag=a=1&tag=a=2", []gen.FieldError{{Pointer: "query/tag", Detail: "one key is asked for with two values"}}},
		{http.MethodGet, "/instances?host=H_1", []gen.FieldError{{Pointer: "query/host", Detail: "must match ^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"}}},
		{http.MethodGet, "/instances?host=%zz", []gen.FieldError{{Pointer: "query", Detail: "cannot be parsed"}}},
		{http.MethodGet, "/instances?host=a;b=c", []gen.FieldError{{Pointer: "query", Detail: "cannot be parsed"}}},
		{http.MethodDelete, id + "?uid=", []gen.FieldError{{Pointer: "query/uid", Detail: "must not be empty"}}},
		{http.MethodDelete, id + "?uid", []gen.FieldError{{Pointer: "query/uid", Detail: "must not be empty"}}},
		{http.MethodDelete, id + "?uid=a&uid=b", []gen.FieldError{{Pointer: "query/uid", Detail: "is there twice"}}},
		{http.MethodDelete, id + "?uid=%20", []gen.FieldError{{Pointer: "query/uid", Detail: "must match ^[A-Za-z0-9._:-]+$"}}},
		{http.MethodGet, id + "/console?bytes=0", []gen.FieldError{{Pointer: "query/bytes", Detail: "must be at least 1"}}},
		{http.MethodGet, id + "/console?bytes=1e3", []gen.FieldError{{Pointer: "query/bytes", Detail: "must be an integer"}}},
		{http.MethodGet, id + "/console?bytes=9223372036854775808", []gen.FieldError{{Pointer: "query/bytes", Detail: "must be an integer"}}},
		{http.MethodGet, id + "/console?bytes=99999999", []gen.FieldError{{Pointer: "query/bytes", Detail: "must be at most 2097152"}}},
		{http.MethodPost, "/images/Debian_13/pull", []gen.FieldError{{Pointer: "path/name", Detail: "must match ^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"}}},
		{http.MethodPost, "/images/a%2Fb/pull", []gen.FieldError{{Pointer: "path/name", Detail: "must match ^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"}}},
		{http.MethodDelete, "/images/..", []gen.FieldError{{Pointer: "path/name", Detail: "must match ^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"}}},
	}
	for _, c := range cases {
		t.Run(c.method+" "+c.target, func(t *testing.T) {
			h := newHarness(t, &fakeService{})
			r := request(c.method, "/", "")
			path, query, _ := strings.Cut(c.target, "?")
			parsed, err := r.URL.Parse(path)
			if err != nil {
				t.Fatal(err)
			}
			r.URL = parsed
			if strings.HasSuffix(path, "/..") { // as sent by a client that does not clean paths
				r.URL.Path, r.URL.RawPath = path, ""
			}
			r.URL.RawQuery = query
			w := h.do(r)
			p := wantProblem(t, w, http.StatusBadRequest, instance.ReasonInvalidRequest)
			if diff := cmp.Diff(c.want, value(p.Errors)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if calls := h.service.called(); calls != nil {
				t.Errorf("service was called: %v", calls)
			}
			if strings.Contains(w.Body.String()+h.log.String(), sentinel) {
				t.Errorf("a value was repeated\n%s\n%s", w.Body, h.log)
			}
		})
	}
}

func TestValidation_mediaTypes(t *testing.T) {
	const body = `{"name":"a","placement":"p"}`
	cases := []struct {
		name, contentType, encoding string
		want                        int
	}{
		{"plain", "application/json", "", 200},
		{"charset", "application/json; charset=UTF-8", "", 200},
		{"upper case", "Application/JSON", "identity", 200},
		{"absent", "", "", 415},
		{"text", "text/plain", "", 415},
		{"form", "application/x-www-form-urlencoded", "", 415},
		{"problem", "application/problem+json", "", 415},
		{"other charset", "application/json; charset=latin1", "", 415},
		{"broken", "application/json; charset", "", 415},
		{"gzip", "application/json", "gzip", 415},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, &fakeService{created: instance.Created{Instance: testInstance()}})
			r := request(http.MethodPost, "/instances", body)
			r.Header.Set("Content-Type", c.contentType)
			if c.encoding != "" {
				r.Header.Set("Content-Encoding", c.encoding)
			}
			w := h.do(r)
			if w.Code != c.want {
				t.Errorf("got %d, want %d: %s", w.Code, c.want, w.Body)
			}
		})
	}
}

// TestValidation_userDataUntouched: neither defaults nor decoding may change it.
func TestValidation_userDataUntouched(t *testing.T) {
	cases := []struct{ name, field, want string }{
		{"CRLF and no end of line", `"cloudInit":"#cloud-config\r\na: 1"`, "#cloud-config\r\na: 1"},
		{"beyond the BMP", `"cloudInit":"\ud83d\ude00 \\ud83d 😀"`, "😀 \\ud83d 😀"},
		{"control characters", `"cloudInit":"\u0000\u001b"`, "\x00\x1b"},
		{"large", `"cloudInit":"` + strings.Repeat("x", 500_000) + `"`, strings.Repeat("x", 500_000)},
		{"base64 of gzip", `"cloudInitBase64":"H4sIAAD/"`, "\x1f\x8b\x08\x00\x00\xff"},
		{"empty", `"cloudInit":""`, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, &fakeService{created: instance.Created{Instance: testInstance()}})
			w := h.do(request(http.MethodPost, "/instances", `{"name":"a","placement":"p",`+c.field+`}`))
			if w.Code != http.StatusOK {
				t.Fatalf("got %d: %s", w.Code, w.Body)
			}
			if got := string(h.service.spec.UserData); got != c.want {
				t.Errorf("user data of %d bytes differs from the %d sent", len(got), len(c.want))
			}
		})
	}
}

func FuzzCheckJSON(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1,"a":2}`, `[{"a":[1,{"b":"\ud83d"}]}]`, `"\\u"`, `{"a`, `1 2`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if err := checkJSON(body); err != nil && instance.ReasonOf(err) != instance.ReasonInvalidRequest {
			t.Errorf("reason %s of %v", instance.ReasonOf(err), err)
		}
	})
}
