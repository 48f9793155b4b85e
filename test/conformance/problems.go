package conformance

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

var reasonRE = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)

// kindsOf is which kind goes with which status. 404 may be Permanent too: a path
// that does not exist is no instance that does not exist.
var kindsOf = map[int]string{
	400: "Permanent", 401: "Permanent", 403: "Permanent", 405: "Permanent", 409: "Permanent", 413: "Permanent", 415: "Permanent", 422: "Permanent",
	429: "Transient", 500: "Transient", 503: "Transient", 504: "Transient", 507: "QuotaExceeded",
}

// shapeFault says what keeps an answer that is no success from being a problem.
// Reads of instances that are not there are E4's, health's reports H1's.
func (p *probe) shapeFault(a answer) string {
	report := a.status == http.StatusServiceUnavailable && a.call.path == "/health" && mediaType(a) == "application/json"
	absent := a.status == http.StatusNotFound && strings.HasPrefix(a.call.path, "/instances/")
	if a.ok() || report || absent {
		return ""
	}
	if a.call.method == http.MethodHead {
		return problemTypeFault(a)
	}
	if fault := problemFault(a); fault != "" {
		return fault
	}
	want, known := kindsOf[a.status]
	if got := a.problem().Kind; known && got != want {
		return fmt.Sprintf("status %d with kind %s", a.status, got)
	}
	return ""
}

func problemTypeFault(a answer) string {
	if mediaType(a) != "application/problem+json" {
		return "it is no application/problem+json"
	}
	return ""
}

// problemFault says what keeps an answer's body from being a problem.
func problemFault(a answer) string {
	if fault := problemTypeFault(a); fault != "" {
		return fault
	}
	got := a.problem()
	id := a.header.Get("X-Request-Id")
	switch {
	case got.Type == "" || got.Title == "":
		return "type or title is missing"
	case got.Status != a.status:
		return fmt.Sprintf("its status is %d", got.Status)
	case got.Instance == "" || id != "" && got.Instance != id:
		return "its instance is not the request's id"
	case !slices.Contains([]string{"NotFound", "Permanent", "Transient", "QuotaExceeded"}, got.Kind):
		return fmt.Sprintf("its kind is %q", got.Kind)
	case !reasonRE.MatchString(got.Reason):
		return fmt.Sprintf("its reason is %q", got.Reason)
	}
	return ""
}
