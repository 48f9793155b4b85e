package http

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/api"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func TestCreate_passesTheSpec(t *testing.T) {
	service := &fakeService{created: instance.Created{Instance: testInstance(), Made: true}}
	h := newHarness(t, service)
	r := request(http.MethodPost, "/instances", `{"name":"proxy-1","uid":"u:1","placement":"p1","image":"debian-13","size":"small",
		"cloudInit":"#cloud-config\n","tags":{"a":"b"},"autostart":false}`)
	r.Header.Add("Prefer", "respond-async")
	r.Header.Add("Prefer", "wait=7")
	w := h.do(r)
	if w.Code != http.StatusCreated {
		t.Fatalf("got %d: %s", w.Code, w.Body)
	}
	want := instance.Spec{
		Name: "proxy-1", UID: "u:1", Placement: "p1", Image: "debian-13", Size: "small",
		UserData: instance.Secret("#cloud-config\n"), Tags: map[string]string{"a": "b"},
	}
	if diff := cmp.Diff(want, service.spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if service.patience != 7*time.Second || w.Header().Get("Preference-Applied") != "wait=7" {
		t.Errorf("patience %s, Preference-Applied %q", service.patience, w.Header().Get("Preference-Applied"))
	}
	if got, want := w.Header().Get("Location"), "/instances/hosts/h1/domains/proxy-1"; got != want {
		t.Errorf("Location = %q, want %q", got, want)
	}
}

func TestCreate_defaults(t *testing.T) {
	service := &fakeService{created: instance.Created{Instance: testInstance()}}
	w := newHarness(t, service).do(request(http.MethodPost, "/instances", `{"name":"a","placement":"p1"}`))
	if w.Code != http.StatusOK || w.Header().Get("Location") != "" || w.Header().Get("Preference-Applied") != "" {
		t.Errorf("got %d, headers %v", w.Code, w.Header())
	}
	if !service.spec.Autostart || service.patience != 50*time.Second {
		t.Errorf("autostart %v, patience %s; want true, 50s", service.spec.Autostart, service.patience)
	}
}

func TestCreate_dryRunMakesNothing(t *testing.T) {
	for _, query := range []string{"dryRun=true", "dryRun=1"} {
		service := &fakeService{}
		w := newHarness(t, service).do(request(http.MethodPost, "/instances?"+query, `{"name":"a","placement":"p1"}`))
		if diff := cmp.Diff([]string{"DryRun"}, service.called()); w.Code != http.StatusOK || diff != "" {
			t.Errorf("%s: got %d, calls %v", query, w.Code, service.called())
		}
		if got, want := w.Body.String(), `{"availableBytes":5,"host":"h1","imageState":"absent","neededBytes":3}`+"\n"; got != want {
			t.Errorf("body %s, want %s", got, want)
		}
	}
}

func TestGet_json(t *testing.T) {
	w := newHarness(t, &fakeService{}).do(request(http.MethodGet, "/instances/hosts/h1/domains/proxy-1", ""))
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"id": "hosts/h1/domains/proxy-1", "name": "proxy-1", "uid": "u-1", "host": "h1", "placement": "p1",
		"image": "debian-13", "size": "small", "state": "Running", "ip": "192.0.2.7",
		"addresses": []any{
			map[string]any{"address": "192.0.2.7", "family": "ipv4", "source": "agent", "mac": "02:00:00:00:00:01"},
			map[string]any{"address": "2001:db8::7", "family": "ipv6", "source": "lease", "mac": "02:00:00:00:00:01"},
		},
		"createdAt": "2026-11-29T09:00:00Z", "tags": map[string]any{"pool": "egress"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instance (-want +got):\n%s", diff)
	}
}

func TestList_neverNull(t *testing.T) {
	w := newHarness(t, &fakeService{}).do(request(http.MethodGet, "/instances", ""))
	if got, want := w.Body.String(), `{"items":[],"unreachable":[]}`+"\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	service := &fakeService{page: instance.Page{Items: []instance.Instance{{ID: instance.ID{Host: "h", Name: "n"}, State: instance.Stopped}}}}
	w = newHarness(t, service).do(request(http.MethodGet, "/instances", ""))
	want := `{"items":[{"addresses":[],"host":"h","id":"hosts/h/domains/n","image":"","name":"n","placement":"","size":"","state":"Stopped","tags":{},"uid":""}],"unreachable":[]}` + "\n"
	if got := w.Body.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestList_passesTheFilter(t *testing.T) {
	service := &fakeService{}
	newHarness(t, service).do(request(http.MethodGet, "/instances?tag=a=b&tag=c/d=e%3Df%26g&tag=a=b&tag=empty=&host=h1&placement=p.1&state=Stopped&partial=true", ""))
	want := instance.Filter{
		Tags: map[string]string{"a": "b", "c/d": "e=f&g", "empty": ""}, Host: "h1", Placement: "p.1", State: instance.Stopped, Partial: true,
	}
	if diff := cmp.Diff(want, service.filter); diff != "" {
		t.Errorf("filter (-want +got):\n%s", diff)
	}
}

func TestDelete_passesTheGuard(t *testing.T) {
	for query, want := range map[string]string{"": "", "?uid=u:1": "u:1"} {
		service := &fakeService{}
		r := request(http.MethodDelete, "/instances/hosts/h1/domains/a"+query, `{"ignored": true}`)
		w := newHarness(t, service).do(r)
		if w.Code != http.StatusNoContent || service.uid != want || w.Body.Len() > 0 {
			t.Errorf("%q: got %d, uid %q, body %q", query, w.Code, service.uid, w.Body)
		}
	}
}

func TestImages_passesNames(t *testing.T) {
	cases := []struct {
		method, target string
		status         int
		want           [3]string
	}{
		{http.MethodGet, "/images", 200, [3]string{}},
		{http.MethodGet, "/images?host=h2", 200, [3]string{"", "h2", ""}},
		{http.MethodPost, "/images/debian-13/pull", 202, [3]string{"debian-13", "", ""}},
		{http.MethodPost, "/images/debian-13/pull?host=h2", 202, [3]string{"debian-13", "h2", ""}},
		{http.MethodDelete, "/images/debian-13?host=h2&identity=0a1b", 204, [3]string{"debian-13", "h2", "0a1b"}},
	}
	for _, c := range cases {
		service := &fakeService{}
		w := newHarness(t, service).do(request(c.method, c.target, ""))
		if w.Code != c.status || service.image != c.want {
			t.Errorf("%s %s: got %d %v, want %d %v", c.method, c.target, w.Code, service.image, c.status, c.want)
		}
	}
}

func TestConsole_bytes(t *testing.T) {
	for query, want := range map[string]int64{"": 65536, "?bytes=12": 12} {
		service := &fakeService{console: []byte("\x1b[0mlogin:\xff")}
		w := newHarness(t, service).do(request(http.MethodGet, "/instances/hosts/h1/domains/a/console"+query, ""))
		if service.maxBytes != want || w.Body.String() != "\x1b[0mlogin:\xff" {
			t.Errorf("%q: asked for %d bytes, got %q", query, service.maxBytes, w.Body)
		}
	}
}

func TestHealth_statusByReport(t *testing.T) {
	for status, want := range map[instance.HealthStatus]int{instance.HealthOK: 200, instance.HealthDegraded: 200, instance.HealthDown: 503} {
		w := newHarness(t, &fakeService{report: instance.Report{Status: status}}).do(request(http.MethodGet, "/health", ""))
		if w.Code != want || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: got %d %s, want %d", status, w.Code, w.Header().Get("Content-Type"), want)
		}
		if got, want := w.Header().Get("Retry-After") != "", status == instance.HealthDown; got != want {
			t.Errorf("%s: Retry-After there: %v, want %v", status, got, want)
		}
	}
}

func TestOpenAPI_isTheFile(t *testing.T) {
	w := newHarness(t, &fakeService{}).do(request(http.MethodGet, "/openapi.yaml", ""))
	if w.Body.String() != string(api.OpenAPI) || w.Header().Get("Content-Type") != "application/yaml" {
		t.Errorf("got %d bytes of %s", w.Body.Len(), w.Header().Get("Content-Type"))
	}
}

func TestHead_whereGetIs(t *testing.T) {
	h := newHarness(t, &fakeService{report: instance.Report{Status: instance.HealthOK}})
	for name, target := range targets {
		if target.method != http.MethodGet {
			continue
		}
		get := h.do(request(http.MethodGet, target.target, ""))
		head := h.do(request(http.MethodHead, target.target, ""))
		if head.Code != get.Code || head.Body.Len() != 0 || head.Header().Get("Content-Length") != get.Header().Get("Content-Length") {
			t.Errorf("%s: HEAD %d with %d bytes, GET %d", name, head.Code, head.Body.Len(), get.Code)
		}
	}
	if w := h.do(request(http.MethodHead, "/instances/..", "")); w.Code != http.StatusBadRequest || w.Body.Len() != 0 {
		t.Errorf("HEAD of a bad id: %d with %d bytes", w.Code, w.Body.Len())
	}
}

func TestPatience_table(t *testing.T) {
	cases := []struct {
		header  string
		want    time.Duration
		applied bool
	}{
		{"", 50 * time.Second, false},
		{"wait=10", 10 * time.Second, true},
		{"Wait = 10", 10 * time.Second, true},
		{`wait="10"`, 10 * time.Second, true},
		{"respond-async, wait=3;x=y", 3 * time.Second, true},
		{"wait=0", 0, true},
		{"wait=99999", time.Minute, true},
		{"wait=4294967296", 50 * time.Second, false},
		{"wait=-1", 50 * time.Second, false},
		{"wait=1.5", 50 * time.Second, false},
		{"wait=soon", 50 * time.Second, false},
		{"wait", 50 * time.Second, false},
		{"waiting=9", 50 * time.Second, false},
		{"wait=5, wait=9", 5 * time.Second, true},
	}
	for _, c := range cases {
		got, applied := patience(c.header, time.Minute)
		if got != c.want || applied != c.applied {
			t.Errorf("patience(%q) = %s, %v; want %s, %v", c.header, got, applied, c.want, c.applied)
		}
	}
}

func TestNew_namesEveryMissingOption(t *testing.T) {
	_, err := New(Options{})
	want := "http: option Service is missing\nhttp: option Auth is missing\nhttp: option Log is missing\nhttp: option Registry is missing"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
