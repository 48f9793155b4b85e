package http

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func TestAnswers_complete(t *testing.T) {
	kinds := map[instance.Kind][]int{
		instance.NotFound:      {404},
		instance.Permanent:     {400, 401, 403, 404, 405, 409, 413, 415, 422},
		instance.Transient:     {429, 500, 503, 504},
		instance.QuotaExceeded: {507},
	}
	reasons := instance.Reasons()
	for _, reason := range reasons {
		a, ok := answers[reason]
		if !ok {
			t.Errorf("no answer for %s", reason)
			continue
		}
		found := false
		for _, s := range kinds[reason.Kind()] {
			found = found || s == a.status
		}
		if !found {
			t.Errorf("%s is %s and answered %d", reason, reason.Kind(), a.status)
		}
		if a.title == "" {
			t.Errorf("%s has no title", reason)
		}
	}
	if len(answers) != len(reasons) {
		t.Errorf("%d answers for %d reasons", len(answers), len(reasons))
	}
	if a := answers[instance.ReasonRouteNotFound]; a.status != 404 || instance.ReasonRouteNotFound.Kind() != instance.Permanent {
		t.Error("a path that does not exist must be 404 and Permanent")
	}
}

func TestProblemOf_table(t *testing.T) {
	left, leave := context.WithCancel(context.Background())
	leave()
	down, stop := context.WithCancelCause(context.Background())
	stop(instance.Errorf(instance.ReasonShuttingDown, "the service is shutting down"))

	cases := []struct {
		name       string
		ctx        context.Context
		err        error
		status     int
		reason     instance.Reason
		retry      int
		detailHas  string
		detailLack string
	}{
		{name: "wrapped", err: fmt.Errorf("outer: %w", &instance.Error{Reason: instance.ReasonUIDMismatch, Op: "create", Instance: "a", Host: "h1"}), status: 409, reason: instance.ReasonUIDMismatch, detailHas: "create a on h1"},
		{name: "wanted retry", err: &instance.Error{Reason: instance.ReasonCreateInProgress, RetryAfter: 2600 * time.Millisecond}, status: 503, reason: instance.ReasonCreateInProgress, retry: 3},
		{name: "short retry is a second", err: &instance.Error{Reason: instance.ReasonHostBusy, RetryAfter: time.Millisecond}, status: 503, reason: instance.ReasonHostBusy, retry: 1},
		{name: "quota", err: &instance.Error{Reason: instance.ReasonPoolFull}, status: 507, reason: instance.ReasonPoolFull, retry: 60},
		{name: "unclassified", err: errors.New("select * from secrets"), status: 500, reason: instance.ReasonInternal, retry: 5, detailLack: "secrets"},
		{name: "internal", err: &instance.Error{Reason: instance.ReasonInternal, Detail: "nil map"}, status: 500, reason: instance.ReasonInternal, retry: 5, detailLack: "nil map"},
		{name: "reason of no table", err: &instance.Error{Reason: "Newfangled", Detail: "inner"}, status: 500, reason: instance.ReasonInternal, retry: 5, detailLack: "inner"},
		{name: "bare deadline", err: context.DeadlineExceeded, status: 504, reason: instance.ReasonTimeout, retry: 5},
		{name: "client left", ctx: left, err: context.Canceled, status: 499, reason: instance.ReasonCancelled, retry: 5},
		{name: "cancelled for another reason", err: context.Canceled, status: 503, reason: instance.ReasonCancelled, retry: 5},
		{name: "shutdown", ctx: down, err: context.Canceled, status: 503, reason: instance.ReasonShuttingDown, retry: 5, detailHas: "shutting down"},
		{name: "long and unprintable", err: instance.Errorf(instance.ReasonLibvirtError, "\x1b[31m%s", strings.Repeat("ž", 4000)), status: 503, reason: instance.ReasonLibvirtError, retry: 5, detailLack: "\x1b"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ctx := c.ctx
			if ctx == nil {
				ctx = context.Background()
			}
			p := problemOf(ctx, c.err)
			if p.Status != c.status || p.Reason != string(c.reason) || value(p.RetryAfterSeconds) != c.retry {
				t.Errorf("got %d %s retry %d, want %d %s retry %d", p.Status, p.Reason, value(p.RetryAfterSeconds), c.status, c.reason, c.retry)
			}
			detail := value(p.Detail)
			if !strings.Contains(detail, c.detailHas) || (c.detailLack != "" && strings.Contains(detail, c.detailLack)) {
				t.Errorf("detail = %q", detail)
			}
			if len(detail) > maxDetailBytes+len("…") {
				t.Errorf("detail has %d bytes", len(detail))
			}
		})
	}
}

func TestRouteNotFound_isNoVanishedInstance(t *testing.T) {
	h := newHarness(t, &fakeService{})
	for _, target := range []string{"/nope", "/instance", "/health/", "/instances/../x/..", "//instances", "/images/a/b/c", "/v1/instances/hosts/h1/domains/a"} {
		if strings.HasPrefix(target, "/instances/") {
			continue
		}
		wantProblem(t, h.do(request(http.MethodGet, target, "")), http.StatusNotFound, instance.ReasonRouteNotFound)
	}
	wantProblem(t, h.do(request("BREW", "/coffee", "")), http.StatusNotFound, instance.ReasonRouteNotFound)
}

func TestMethodNotAllowed_saysWhatIs(t *testing.T) {
	h := newHarness(t, &fakeService{})
	cases := []struct{ method, target, allow string }{
		{http.MethodPut, "/instances", "GET, HEAD, POST"},
		{http.MethodPost, "/instances/hosts/h1/domains/a", "GET, HEAD, DELETE"},
		{http.MethodPatch, "/instances/hosts%2Fh1%2Fdomains%2Fa/console", "GET, HEAD"},
		{http.MethodGet, "/images/a/pull", "POST"},
		{http.MethodHead, "/images/a/pull", "POST"},
		{http.MethodOptions, "/health", "GET, HEAD"},
		{"BREW", "/version", "GET, HEAD"},
	}
	for _, c := range cases {
		t.Run(c.method+" "+c.target, func(t *testing.T) {
			w := h.do(request(c.method, c.target, ""))
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != c.allow {
				t.Errorf("got %d, Allow %q; want 405, %q", w.Code, w.Header().Get("Allow"), c.allow)
			}
			if c.method != http.MethodHead {
				wantProblem(t, w, http.StatusMethodNotAllowed, instance.ReasonMethodNotAllowed)
			}
		})
	}
}
