package http

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/api"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// refusing is an authenticator that fails as told, or panics without an error.
type refusing struct{ err error }

func (a refusing) Authenticate(context.Context, Credentials) (Principal, bool, error) {
	if a.err == nil {
		panic("authenticator broke")
	}
	return Principal{}, false, a.err
}

func loadContract(t *testing.T) (*openapi3.T, routers.Router) {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI)
	if err != nil {
		t.Fatalf("load contract: %v", err)
	}
	doc.Servers = nil // any host will do
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatalf("route contract: %v", err)
	}
	return doc, router
}

// checkAgainstContract validates an answer against its operation.
func checkAgainstContract(t *testing.T, router routers.Router, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	route, params, err := router.FindRoute(r)
	if err != nil {
		t.Fatalf("find route of %s %s: %v", r.Method, r.URL, err)
	}
	in := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 w.Code,
		Header:                 w.Header(),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	in.SetBodyBytes(w.Body.Bytes())
	if err := openapi3filter.ValidateResponse(context.Background(), in); err != nil {
		t.Errorf("%s %s answered %d against the contract: %v\n%s", r.Method, r.URL, w.Code, err, w.Body.String())
	}
	if len(route.Operation.Responses.Status(w.Code).Value.Content) == 0 && w.Body.Len() > 0 {
		t.Errorf("%s %s answered %d with a body that the contract does not have", r.Method, r.URL, w.Code)
	}
}

// targets is a good request for each operation.
var targets = map[string]struct{ method, target, body string }{
	"listInstances":  {http.MethodGet, "/instances?tag=a=b&tag=c=d=e&host=h1&placement=p1&state=Running&partial=true", ""},
	"createInstance": {http.MethodPost, "/instances", `{"name":"proxy-1","placement":"p1","cloudInit":"#cloud-config\n","tags":{"a":"b"}}`},
	"getInstance":    {http.MethodGet, "/instances/hosts%2Fh1%2Fdomains%2Fproxy-1", ""},
	"deleteInstance": {http.MethodDelete, "/instances/hosts%2Fh1%2Fdomains%2Fproxy-1?uid=u-1", ""},
	"getConsole":     {http.MethodGet, "/instances/hosts%2Fh1%2Fdomains%2Fproxy-1/console?bytes=10", ""},
	"listImages":     {http.MethodGet, "/images?host=h1", ""},
	"deleteImage":    {http.MethodDelete, "/images/debian-13?host=h1&identity=abc123", ""},
	"pullImage":      {http.MethodPost, "/images/debian-13/pull?host=h1", ""},
	"getHealth":      {http.MethodGet, "/health", ""},
	"listPlacements": {http.MethodGet, "/placements", ""},
	"getVersion":     {http.MethodGet, "/version", ""},
	"getOpenAPI":     {http.MethodGet, "/openapi.yaml", ""},
}

// situation is one way to make an operation answer with a status.
type situation struct {
	name    string
	service *fakeService
	change  func(*Options)
	request func(*http.Request)
}

func withAuth(a Authenticator) func(*Options) {
	return func(o *Options) { o.Auth = []Authenticator{a} }
}

// reasonsWith returns the reasons that are answered with status.
func reasonsWith(status int) []instance.Reason {
	var out []instance.Reason
	for _, r := range instance.Reasons() {
		if answers[r].status == status {
			out = append(out, r)
		}
	}
	return out
}

// situationsFor returns how operation op can be made to answer with status.
func situationsFor(op string, status int) []situation {
	switch {
	case status < 300:
		return successes(op, status)
	case op == "getHealth" && status == http.StatusServiceUnavailable:
		return []situation{
			{name: "down", service: &fakeService{report: instance.Report{Status: instance.HealthDown, Hosts: []instance.HostHealth{{
				Host: "h1", Reason: instance.ReasonUnreachable, Message: "no answer", Latency: time.Second,
			}}}}},
			{name: "problem", change: withAuth(refusing{instance.Errorf(instance.ReasonOverloaded, "busy")})},
		}
	case status == http.StatusBadRequest:
		return []situation{{name: "unknown parameter", request: func(r *http.Request) {
			q := r.URL.Query()
			q.Set("surprise", "1")
			r.URL.RawQuery = q.Encode()
		}}}
	case status == http.StatusUnauthorized:
		return []situation{{name: "no token", request: func(r *http.Request) { r.Header.Del("Authorization") }}}
	case status == http.StatusForbidden:
		return []situation{{name: "certificate of another", change: withAuth(refusing{instance.Errorf(instance.ReasonForbidden, "not here")})}}
	case status == http.StatusRequestEntityTooLarge:
		return []situation{{name: "small limit", change: func(o *Options) { o.MaxBodyBytes = 8 }}}
	case status == http.StatusUnsupportedMediaType:
		return []situation{{name: "text", request: func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }}}
	case status == http.StatusTooManyRequests:
		return []situation{{name: "share", change: withAuth(refusing{instance.Errorf(instance.ReasonTooManyRequests, "too many")})}}
	case status == http.StatusInternalServerError:
		return []situation{{name: "panic", change: withAuth(refusing{})}, {
			name: "unclassified", service: &fakeService{err: errors.New("boom"), report: instance.Report{Status: instance.HealthOK}},
		}}
	default:
		return failures(status)
	}
}

func failures(status int) []situation {
	var out []situation
	for _, reason := range reasonsWith(status) {
		if reason == instance.ReasonRouteNotFound {
			continue // no operation's answer
		}
		err := &instance.Error{Reason: reason, Op: "do it", Instance: "proxy-1", Host: "h1", Detail: "why"}
		out = append(out,
			situation{name: string(reason), service: &fakeService{err: err}},
			situation{name: string(reason) + " before the handler", change: withAuth(refusing{err})},
		)
	}
	return out
}

func successes(op string, status int) []situation {
	full := &fakeService{
		created: instance.Created{Instance: testInstance(), Made: status == http.StatusCreated},
		page: instance.Page{
			Items:       []instance.Instance{testInstance(), {ID: instance.ID{Host: "h1", Name: "bare"}, State: instance.Provisioning}},
			Unreachable: []instance.UnreachableHost{{Host: "h2", Reason: instance.ReasonUnreachable}},
		},
		console: []byte("login:"),
		images: []instance.ImageStatus{
			{Image: "a", Host: "h1", Identity: "1", State: instance.ImageReady, SizeBytes: 1, Overlays: 0},
			{Image: "a", Host: "h1", Identity: "2", State: instance.ImageDownloading, DoneBytes: 1, TotalBytes: 2, StartedAt: time.Now(), Attempt: 1},
			{Image: "b", Host: "h1", Identity: "3", State: instance.ImageFailed, Failure: "no", Reason: instance.ReasonChecksumMismatch},
			{Image: "c", Host: "h1", Identity: "4", State: instance.ImageAbsent},
		},
		report: instance.Report{Status: instance.HealthOK, Hosts: []instance.HostHealth{{
			Host: "h1", Ready: true, Reason: instance.ReasonReady, Message: "ready",
			Details: instance.HostDetails{User: "u", Firmware: []string{"uefi"}, PoolCapacityGiB: optional(1.5), MemoryFreeMiB: optional(int64(3))},
		}}},
	}
	out := []situation{{name: "full", service: full}}
	if status == http.StatusOK {
		out = append(out, situation{name: "empty", service: &fakeService{
			created: instance.Created{Instance: testInstance()}, report: instance.Report{Status: instance.HealthOK},
		}})
	}
	if op == "createInstance" && status == http.StatusOK {
		out = append(out, situation{name: "dry run", request: func(r *http.Request) { r.URL.RawQuery = "dryRun=true" }})
	}
	return out
}

// TestContract_everyOperationAndStatus makes each operation answer with each
// status that it declares, in every way there is, and holds the answer against
// the contract.
func TestContract_everyOperationAndStatus(t *testing.T) {
	doc, router := loadContract(t)
	produced := 0
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			target, ok := targets[op.OperationID]
			if !ok {
				t.Errorf("operation %s has no request in this test", op.OperationID)
				continue
			}
			for code := range op.Responses.Map() {
				status, err := strconv.Atoi(code)
				if err != nil {
					t.Fatalf("%s declares status %q", op.OperationID, code)
				}
				met := false
				for _, s := range situationsFor(op.OperationID, status) {
					met = produce(t, router, op.OperationID, status, target.method, target.target, target.body, s) || met
				}
				if !met {
					t.Errorf("%s never answered %d", op.OperationID, status)
				}
				produced++
			}
		}
	}
	t.Logf("%d pairs of operation and status produced", produced)
}

// produce reports whether the situation led to the status; an operation that
// asks nothing of the service has only some of them.
func produce(t *testing.T, router routers.Router, op string, status int, method, target, body string, s situation) bool {
	t.Helper()
	met := false
	t.Run(fmt.Sprintf("%s %d %s", op, status, s.name), func(t *testing.T) {
		var change []func(*Options)
		if s.change != nil {
			change = append(change, s.change)
		}
		service := s.service
		if service == nil {
			service = &fakeService{}
		}
		h := newHarness(t, service, change...)
		r := request(method, target, body)
		if s.request != nil {
			s.request(r)
		}
		w := h.do(r.Clone(r.Context()))
		r.Body = http.NoBody
		checkAgainstContract(t, router, r, w)
		met = w.Code == status
		if met && status >= 300 && (op != "getHealth" || s.name != "down") {
			p := problemIn(t, w)
			if p.Instance == "" || p.Instance != w.Header().Get("X-Request-Id") {
				t.Errorf("instance %q, X-Request-Id %q: want the same id", p.Instance, w.Header().Get("X-Request-Id"))
			}
			wantRetry := p.Kind == "Transient" || p.Kind == "QuotaExceeded"
			if got := w.Header().Get("Retry-After"); (got != "") != wantRetry || (p.RetryAfterSeconds != nil) != wantRetry {
				t.Errorf("Retry-After %q, retryAfterSeconds %v with kind %s", got, p.RetryAfterSeconds, p.Kind)
			}
		}
		if got := w.Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("Cache-Control = %q", got)
		}
	})
	return met
}

// TestContract_examples holds every example of the document against its schema,
// and the example of each reason against what the server would say.
func TestContract_examples(t *testing.T) {
	doc, _ := loadContract(t)
	if err := doc.Validate(context.Background(), openapi3.EnableExamplesValidation()); err != nil {
		t.Errorf("document: %v", err)
	}
	for _, reason := range instance.Reasons() {
		if reason == instance.ReasonMethodNotAllowed {
			continue // told in words: no operation has it
		}
		ref, ok := doc.Components.Examples[string(reason)]
		if !ok {
			t.Errorf("no example for reason %s", reason)
			continue
		}
		text, err := json.Marshal(ref.Value.Value)
		if err != nil {
			t.Fatal(err)
		}
		p := problemOf(context.Background(), &instance.Error{Reason: reason})
		want := fmt.Sprintf("%s|%s|%d|%s|%s|%d", p.Type, p.Title, p.Status, p.Kind, p.Reason, value(p.RetryAfterSeconds))
		var e struct {
			Type, Title, Kind, Reason string
			Status, RetryAfterSeconds int
		}
		if err := json.NewDecoder(bytes.NewReader(text)).Decode(&e); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s|%s|%d|%s|%s|%d", e.Type, e.Title, e.Status, e.Kind, e.Reason, e.RetryAfterSeconds); got != want {
			t.Errorf("example %s\n got %s\nwant %s", reason, got, want)
		}
	}
}

// TestContract_errorsOfEachOperation: every operation can fail in the ways that
// all share.
func TestContract_errorsOfEachOperation(t *testing.T) {
	doc, _ := loadContract(t)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			for _, status := range []int{400, 401, 403, 429, 500, 503} {
				if op.Responses.Status(status) == nil {
					t.Errorf("%s %s does not declare %d", method, path, status)
				}
			}
			if op.Summary == "" || op.Description == "" {
				t.Errorf("%s %s lacks words", method, path)
			}
		}
	}
}
