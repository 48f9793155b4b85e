package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// maxAttempts bounds how often one call is sent.
	maxAttempts = 3
	// maxAnswerBytes bounds what is read of one answer.
	maxAnswerBytes = 16 << 20
	// longestWait is how long a Retry-After is sat out inside a call; a longer
	// one is the caller's to wait for.
	longestWait = 30 * time.Second
)

// call is one method's request and how its answer is read.
type call struct {
	op string
	// timeout bounds one attempt; 0 leaves it to the context.
	timeout time.Duration
	// send makes the request; it is called once for each attempt.
	send func(ctx context.Context) (*http.Response, error)
	// read takes a success: an error of it makes the answer a foreign one.
	read func(res *http.Response, body []byte) error
	// onlyUnanswered repeats the call only when no answer came.
	onlyUnanswered bool
	// mayBeMissing is set where NotFound is an answer to the question asked.
	mayBeMissing bool
}

// do sends c, again where that may help, within ctx.
func (p *Provider) do(ctx context.Context, c call) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval = p.pause
	pause.MaxInterval = 20 * p.pause
	for attempt := 1; ; attempt++ {
		e := p.attempt(ctx, c)
		if e == nil {
			return nil
		}
		e.Provider, e.Op = p.name, c.op
		wait := max(pause.NextBackOff(), e.RetryAfter)
		if attempt == maxAttempts || !c.repeats(e) {
			return e
		}
		if !p.sleep(ctx, wait) {
			e.Err = errors.Join(e.Err, ctx.Err())
			return e
		}
	}
}

// repeats reports whether the call may be sent again after e.
func (c *call) repeats(e *Error) bool {
	if c.onlyUnanswered {
		return e.Reason == ReasonNoAnswer
	}
	return e.Is(ErrTransient) && e.Reason != ReasonTokenUnavailable
}

// sleep waits for d; false when that is too long, or ctx ends before.
func (p *Provider) sleep(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); d > longestWait || (ok && time.Until(deadline) <= d) {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// attempt sends c once and reads the answer to its end.
func (p *Provider) attempt(ctx context.Context, c call) *Error {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	res, err := c.send(ctx)
	if err != nil {
		return sendError(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := readAll(res.Body)
	if err != nil {
		return &Error{Kind: ErrTransient, Reason: ReasonNoAnswer, Status: res.StatusCode, Err: err}
	}
	err = c.read(res, body)
	if err == nil {
		return nil
	}
	e := p.refused(res, body, err)
	if e.Is(ErrNotFound) && !c.mayBeMissing {
		e.Kind = ErrTransient // nothing that this call asks for can be missing
	}
	return e
}

// errNoSuccess is what a call's read returns for an answer that is none.
var errNoSuccess = errors.New("not a success")

// refused is the error of an answer that a call's read did not take.
func (p *Provider) refused(res *http.Response, body []byte, why error) *Error {
	if !errors.Is(why, errNoSuccess) {
		return foreign(res, why.Error())
	}
	e := problemError(res, body)
	if res.StatusCode == http.StatusUnauthorized && p.doer.token != nil && p.doer.token.changedLately() {
		e.Kind = ErrTransient // the service may not have seen the new token yet
	}
	return e
}

// sendError is the error of a request that got no answer.
func sendError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Kind: ErrTransient, Reason: ReasonNoAnswer, Err: err}
}

func readAll(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxAnswerBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if len(body) > maxAnswerBytes {
		return nil, fmt.Errorf("read answer: more than %d bytes", maxAnswerBytes)
	}
	return body, nil
}
