package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3filter"
)

// Rows of the table that are no operation.
const (
	rowNone    = "(no operation)"
	rowNetHTTP = "(refused by net/http)"
	rowCut     = "(cut off)"
)

// statusClientLeft is what a sender gets that ends its side in the middle of a
// request, should it still listen.
const statusClientLeft = 499

// judge counts an answer and notes what is wrong with it.
func judge(ctx context.Context, c *contract, r *request, a *answer, err error, result *result) {
	if err != nil {
		result.count(rowCut, 0)
		if !r.odd {
			result.fail(describe(r, nil), err.Error())
		}
		return
	}
	if byNetHTTP(a) {
		result.count(rowNetHTTP, a.status)
		if !r.odd {
			result.fail(describe(r, a), "net/http refused a request that is one")
		}
		return
	}
	op, params, found := c.find(r.method, r.target)
	faults := commonFaults(r, a)
	if found {
		result.count(op.name, a.status)
		faults = append(faults, op.faults(ctx, r, a, params)...)
	} else {
		result.count(rowNone, a.status)
		faults = append(faults, strayFaults(r, a)...)
	}
	for _, fault := range faults {
		result.fail(describe(r, a), fault)
	}
}

// byNetHTTP reports whether net/http answered before the API saw a request.
func byNetHTTP(a *answer) bool {
	return a.status >= 400 && a.header.Get("X-Request-Id") == "" && strings.HasPrefix(a.header.Get("Content-Type"), "text/plain")
}

// problem is the part of a problem body that decides.
type problem struct {
	Status            int    `json:"status"`
	Kind              string `json:"kind"`
	Reason            string `json:"reason"`
	Instance          string `json:"instance"`
	RetryAfterSeconds int    `json:"retryAfterSeconds"`
}

func problemOf(a *answer) (p problem, err error) {
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		return p, fmt.Errorf("the body is %q and no problem", got)
	}
	if err := json.Unmarshal(a.body, &p); err != nil {
		return p, fmt.Errorf("the problem is not JSON: %w", err)
	}
	return p, nil
}

var kinds = []string{"NotFound", "Permanent", "Transient", "QuotaExceeded"}

// commonFaults are those that no answer may have.
func commonFaults(r *request, a *answer) []string {
	var faults []string
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	add(a.header.Get("X-Request-Id") == "", "it has no request id")
	add(a.header.Get("Cache-Control") != "no-store", "it may be cached")
	add(bytes.Contains(a.body, []byte(sentinel)), "it shows user data")
	add(a.status == http.StatusInternalServerError, "it is an internal fault")
	add(a.status == statusClientLeft && !r.unfinished, "the client did not leave")
	if a.status < 300 || r.method == http.MethodHead || isReport(a) {
		return faults
	}
	p, err := problemOf(a)
	if err != nil {
		return append(faults, err.Error())
	}
	add(p.Status != a.status, "the problem says status %d", p.Status)
	add(!slices.Contains(kinds, p.Kind), "the problem has kind %q", p.Kind)
	add(p.Reason == "", "the problem has no reason")
	add(p.Instance != a.header.Get("X-Request-Id"), "the problem has request id %q", p.Instance)
	add((p.Kind == "Transient" || p.Kind == "QuotaExceeded") != (a.header.Get("Retry-After") != ""), "Retry-After is %q of kind %s", a.header.Get("Retry-After"), p.Kind)
	return faults
}

// isReport is the one answer that is neither success nor problem.
func isReport(a *answer) bool {
	return a.status == http.StatusServiceUnavailable && a.header.Get("Content-Type") == "application/json"
}

// faults holds an answer against the operation's part of the contract.
func (o operation) faults(ctx context.Context, r *request, a *answer, params map[string]string) []string {
	if a.status == statusClientLeft && r.unfinished {
		return nil
	}
	declared := o.route.Operation.Responses.Status(a.status)
	if declared == nil {
		return []string{fmt.Sprintf("status %d is not declared", a.status)}
	}
	if r.method == http.MethodHead {
		return nil
	}
	if len(declared.Value.Content) == 0 {
		if len(a.body) > 0 {
			return []string{"it has a body"}
		}
		return nil
	}
	in := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: &http.Request{Method: o.route.Method, URL: &url.URL{Path: "/"}}, PathParams: params, Route: o.route,
		},
		Status: a.status, Header: a.header, Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	in.SetBodyBytes(a.body)
	if err := openapi3filter.ValidateResponse(ctx, in); err != nil {
		return []string{"it breaks the contract: " + err.Error()}
	}
	return nil
}

// strayFaults are those of an answer to what is no operation.
func strayFaults(r *request, a *answer) []string {
	if a.status == http.StatusOK && (r.method == http.MethodGet || r.method == http.MethodHead) && isPage(r.target) {
		return nil
	}
	if r.method == http.MethodHead {
		return unexpected(a, a.status >= 400 && a.status < 500)
	}
	p, err := problemOf(a)
	if err != nil {
		return unexpected(a, false)
	}
	switch p.Reason {
	case "RouteNotFound":
		return unexpected(a, a.status == http.StatusNotFound && p.Kind == "Permanent")
	case "MalformedID":
		return unexpected(a, a.status == http.StatusBadRequest && p.Kind == "Permanent")
	case "MethodNotAllowed":
		return unexpected(a, a.status == http.StatusMethodNotAllowed && a.header.Get("Allow") != "")
	case "Forbidden":
		return unexpected(a, a.status == http.StatusForbidden)
	default:
		return unexpected(a, false)
	}
}

func unexpected(a *answer, fine bool) []string {
	if fine {
		return nil
	}
	return []string{fmt.Sprintf("%d is no answer to what is no operation", a.status)}
}

// isPage reports whether a target is one for people.
func isPage(target string) bool {
	u, err := url.ParseRequestURI(target)
	return err == nil && slices.Contains([]string{"/", "/docs", "/docs/redoc.js", "/docs/openapi.yaml", ""}, u.EscapedPath())
}
