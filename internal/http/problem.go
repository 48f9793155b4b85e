package http

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/http/gen"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// problemBase is where docs/problems.md is read; a reason's anchor follows.
const problemBase = "https://gitea.home.hrajfrisbee.cz/kacerr/kvm2d/src/branch/main/docs/problems.md#"

// maxDetailBytes bounds the text of one problem: causes come from hosts too.
const maxDetailBytes = 2048

// invalid is an InvalidRequest with its faults, one for each place. Neither
// pointer nor detail holds a value of the request.
type invalid struct {
	faults []gen.FieldError
}

// invalidf makes an invalid with one fault.
func invalidf(pointer, format string, args ...any) *invalid {
	return &invalid{faults: []gen.FieldError{{Pointer: pointer, Detail: fmt.Sprintf(format, args...)}}}
}

// Error names the first faults.
func (e *invalid) Error() string {
	const shown = 3
	parts := make([]string, 0, shown+1)
	for i, f := range e.faults {
		if i == shown {
			parts = append(parts, fmt.Sprintf("and %d more", len(e.faults)-shown))
			break
		}
		parts = append(parts, f.Pointer+" "+f.Detail)
	}
	return strings.Join(parts, "; ")
}

// Unwrap classifies it.
func (e *invalid) Unwrap() error { return &instance.Error{Reason: instance.ReasonInvalidRequest} }

// fail answers r with err as a problem, and notes err for the request's line.
// Every error of this package and of the Service ends here, once.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(r.Context(), err)
	rec := recordFrom(r.Context())
	rec.failed(err, p)
	p.Instance = rec.requestID

	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Del("Content-Length")
	if p.RetryAfterSeconds != nil {
		h.Set("Retry-After", strconv.Itoa(*p.RetryAfterSeconds))
	}
	w.WriteHeader(p.Status)
	if r.Method == http.MethodHead {
		return
	}
	// The client may be gone; the line of the request tells.
	_ = encodeJSON(w, p)
}

// problemOf describes err as seen by the caller whose request has ctx.
func problemOf(ctx context.Context, err error) gen.Problem {
	err = rootCause(ctx, err)
	reason, a := answerOf(instance.ReasonOf(err))
	if reason == instance.ReasonCancelled && (ctx.Err() != nil || errors.Is(err, errClientLeft)) {
		a.status = statusClientLeft
	}
	p := gen.Problem{
		Type:   problemBase + strings.ToLower(string(reason)),
		Title:  a.title,
		Status: a.status,
		Kind:   gen.Kind(reason.Kind()),
		Reason: string(reason),
	}
	var wanted time.Duration
	if e, ok := errors.AsType[*instance.Error](err); ok {
		p.Host = optional(e.Host)
		wanted = e.RetryAfter
	}
	if s := retryAfter(reason, wanted); s > 0 {
		seconds := int(s / time.Second)
		p.RetryAfterSeconds = &seconds
	}
	p.Detail = optional(detailOf(reason, err))
	if inv, ok := errors.AsType[*invalid](err); ok && len(inv.faults) > 0 {
		p.Errors = &inv.faults
	}
	return p
}

// rootCause prefers the reason that a request's context was ended for (the
// service shuts down) to the bare fact that it ended.
func rootCause(ctx context.Context, err error) error {
	if instance.ReasonOf(err) != instance.ReasonCancelled || ctx.Err() == nil {
		return err
	}
	if e, ok := errors.AsType[*instance.Error](context.Cause(ctx)); ok {
		return e
	}
	return err
}

// detailOf is the text that a caller may see. An internal fault shows nothing
// of itself: whatever it says was not written for callers.
func detailOf(reason instance.Reason, err error) string {
	if reason == instance.ReasonInternal {
		return "an internal fault; the service's log tells more under this request id"
	}
	return printable(err.Error(), maxDetailBytes)
}

// printable bounds s to limit bytes of whole characters and replaces what a
// terminal would act on.
func printable(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
		for len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) {
			s = s[:len(s)-1]
		}
		s += "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}
