package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The four kinds of error, for errors.Is. Every error of a Provider is one of
// them, and the kind alone decides what a caller does.
var (
	// ErrNotFound: the instance does not exist; forget it.
	ErrNotFound = errors.New("not found")
	// ErrPermanent: repeating will not help; stop and show the message.
	ErrPermanent = errors.New("permanent")
	// ErrTransient: repeat with backoff.
	ErrTransient = errors.New("transient")
	// ErrQuotaExceeded: repeat slowly, or go elsewhere.
	ErrQuotaExceeded = errors.New("quota exceeded")
)

// Reasons that the client itself gives, beside those of the API.
const (
	// ReasonNoAnswer: nothing, or only a part of an answer, came back.
	ReasonNoAnswer = "NoAnswer"
	// ReasonForeignAnswer: something answered that is not kvm2d.
	ReasonForeignAnswer = "ForeignAnswer"
	// ReasonTokenUnavailable: the token file cannot be read or holds no token.
	ReasonTokenUnavailable = "TokenUnavailable"
	// ReasonMalformedID: the id has not the shape hosts/<host>/domains/<name>.
	ReasonMalformedID = "MalformedID"
)

// Error is the error of every method of a Provider.
type Error struct {
	// Provider is the configured name of the provider entry.
	Provider string
	// Op says what was being done and to what: "get hosts/h1/domains/proxy-1".
	Op string
	// Kind is one of the four sentinels.
	Kind error
	// Reason is a stable CamelCase word of the API or of this package.
	Reason string
	// Message says why, for people.
	Message string
	// Host is the host that was involved, "" when none was.
	Host string
	// Status is the HTTP status, 0 when no answer came.
	Status int
	// RequestID finds the request in the service's log; "" when no answer came.
	RequestID string
	// RetryAfter is how long the service asks to wait; 0 when it does not say.
	RetryAfter time.Duration
	// Err is the cause, nil when the service answered.
	Err error
}

// Error gives "kvm2 provider: op: message (Reason)".
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "kvm2 %s: %s: ", e.Provider, e.Op)
	b.WriteString(e.Message)
	if e.Err != nil {
		if e.Message != "" {
			b.WriteString(": ")
		}
		b.WriteString(e.Err.Error())
	}
	fmt.Fprintf(&b, " (%s", e.Reason)
	if e.RequestID != "" {
		b.WriteString(", request " + e.RequestID)
	}
	b.WriteString(")")
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the error's kind.
func (e *Error) Is(target error) bool { return target == e.Kind }

var kinds = map[Kind]error{
	KindNotFound: ErrNotFound, KindPermanent: ErrPermanent, KindTransient: ErrTransient, KindQuotaExceeded: ErrQuotaExceeded,
}

const problemType = "application/problem+json"

// maxMessageBytes bounds what an error repeats of an answer.
const maxMessageBytes = 4096

// problemError reads an answer that is no success. What is not a problem body
// of kvm2d's own is Transient, whatever its status.
func problemError(res *http.Response, body []byte) *Error {
	var p Problem
	if mediaType(res.Header) != problemType || json.Unmarshal(body, &p) != nil {
		return foreign(res, "a problem body")
	}
	kind, ok := kinds[p.Kind]
	if !ok || p.Reason == "" || p.Status != res.StatusCode || (p.Kind == KindNotFound && res.StatusCode != http.StatusNotFound) {
		return foreign(res, "a problem body that holds together")
	}
	e := &Error{Kind: kind, Reason: p.Reason, Message: p.Title, Status: p.Status, RequestID: p.Instance, RetryAfter: retryAfter(res.Header, p)}
	if p.Detail != nil {
		e.Message = bounded(*p.Detail)
	}
	if p.Host != nil {
		e.Host = *p.Host
	}
	return e
}

// foreign is the error of an answer that kvm2d did not give.
func foreign(res *http.Response, wanted string) *Error {
	return &Error{
		Kind: ErrTransient, Reason: ReasonForeignAnswer, Status: res.StatusCode,
		Message: fmt.Sprintf("got status %d and %q instead of %s", res.StatusCode, bounded(res.Header.Get("Content-Type")), wanted),
	}
}

func mediaType(h http.Header) string {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

// retryAfter reads the header in seconds, or the body's word for it.
func retryAfter(h http.Header, p Problem) time.Duration {
	seconds, err := strconv.ParseUint(h.Get("Retry-After"), 10, 31)
	if err != nil && p.RetryAfterSeconds != nil {
		seconds = uint64(max(0, *p.RetryAfterSeconds))
	}
	return time.Duration(seconds) * time.Second
}

func bounded(s string) string {
	if len(s) > maxMessageBytes {
		return strings.ToValidUTF8(s[:maxMessageBytes], "") + "…"
	}
	return s
}
