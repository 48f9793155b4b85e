package instance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Error is what every method of Service, Host and Images returns when it
// fails. It is made once, where the cause is classified, and says what was
// being done, to what, and where: "define domain proxy-1 on beelink: …".
type Error struct {
	// Reason gives the error its kind (Reason.Kind).
	Reason Reason
	// Op says what was being done: a verb and a noun, lower case ("define domain").
	Op string
	// Instance is the instance's name, where one is involved.
	Instance string
	// Host is the configured host's name, where one is involved.
	Host string
	// Detail replaces the cause's text in the message when the cause is nil, or
	// goes before it otherwise.
	Detail string
	// RetryAfter is how long a caller should wait; 0 leaves it to the default of the kind.
	RetryAfter time.Duration
	// Faults lists what is wrong with a request (InvalidRequest only).
	Faults []Fault
	// Err is the cause; its text is shown to callers, so it must hold no secret.
	Err error
}

// Error gives "op instance on host: detail: cause", leaving out what is not known.
func (e *Error) Error() string {
	var head, b strings.Builder
	head.WriteString(e.Op)
	if e.Instance != "" {
		join(&head, " ", e.Instance)
	}
	if e.Host != "" {
		join(&head, " ", "on "+e.Host)
	}
	b.WriteString(head.String())
	if e.Detail != "" {
		join(&b, ": ", e.Detail)
	}
	if e.Err != nil {
		join(&b, ": ", e.Err.Error())
	}
	if b.Len() == 0 {
		return string(e.Reason)
	}
	return b.String()
}

func join(b *strings.Builder, sep, s string) {
	if b.Len() > 0 {
		b.WriteString(sep)
	}
	b.WriteString(s)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is this error's Kind.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Reason.Kind()
}

// Errorf makes an Error without a cause.
func Errorf(r Reason, format string, args ...any) *Error {
	return &Error{Reason: r, Detail: fmt.Sprintf(format, args...)}
}

// ReasonOf returns the reason of err: that of the outermost *Error in its
// chain, Timeout or Cancelled for a context's end, Internal for anything else.
func ReasonOf(err error) Reason {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Reason
	case errors.Is(err, context.DeadlineExceeded):
		return ReasonTimeout
	case errors.Is(err, context.Canceled):
		return ReasonCancelled
	default:
		return ReasonInternal
	}
}

// situate returns err as an *Error that says what was done to which instance on
// which host, filling in only what it does not say itself. It never adds a
// second layer.
func situate(err error, op string, id ID) error {
	if err == nil {
		return nil
	}
	var inner *Error
	if !errors.As(err, &inner) {
		return &Error{Reason: ReasonOf(err), Op: op, Instance: id.Name, Host: id.Host, Err: err}
	}
	e := *inner
	if e.Op == "" {
		e.Op = op
	}
	if e.Instance == "" {
		e.Instance = id.Name
	}
	if e.Host == "" {
		e.Host = id.Host
	}
	return &e
}

// Sentinels that a Host or Images wraps into its *Error, for outcomes on which
// the Service goes on instead of failing.
var (
	// ErrAlreadyDefined: a machine of that name with another UUID was defined first.
	ErrAlreadyDefined = errors.New("already defined")
	// ErrVolumeExists: a volume of that name is there already.
	ErrVolumeExists = errors.New("volume exists")
	// ErrNoVolume: there is no volume of that name.
	ErrNoVolume = errors.New("no such volume")
)
