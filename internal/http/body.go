package http

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// errClientLeft is what a body ends in whose sender went away.
var errClientLeft = errors.New("the client left before its end")

// bodies bounds what a request may send, in bytes and in time.
type bodies struct {
	maxBytes int64
	timeout  time.Duration
}

// deadline starts the clock for a request's body before anything else happens
// to it, so that one which nobody reads cannot hold its connection either.
func (b bodies) deadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hasBody(r) {
			// Not every writer has deadlines (tests); without one the read is unbounded.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(b.timeout))
		}
		next.ServeHTTP(w, r)
	})
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// read takes the whole body and stops its clock: the work that follows may be
// long, and net/http ends the request when a read fails.
func (b bodies) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if !hasBody(r) {
		return nil, nil
	}
	if r.ContentLength > b.maxBytes {
		return nil, b.tooLarge(w)
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, b.maxBytes))
	if err != nil {
		return nil, b.readError(w, err)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return data, nil
}

func (b bodies) readError(w http.ResponseWriter, err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return b.tooLarge(w)
	}
	w.Header().Set("Connection", "close")
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		return instance.Errorf(instance.ReasonTimeout, "the body did not arrive within %s", b.timeout)
	}
	return &instance.Error{Reason: instance.ReasonCancelled, Op: "read body", Err: errClientLeft}
}

func (b bodies) tooLarge(w http.ResponseWriter) error {
	w.Header().Set("Connection", "close")
	return instance.Errorf(instance.ReasonBodyTooLarge, "the body is larger than %d bytes", b.maxBytes)
}

// drain reads what a request sends to an operation that takes no body, so that
// net/http notices when the client leaves. What it says does not matter; that it
// comes does, because net/http ends a request when a read fails.
func (b bodies) drain(w http.ResponseWriter, r *http.Request) error {
	if !hasBody(r) {
		return nil
	}
	_, err := b.read(w, r)
	r.Body = http.NoBody
	switch instance.ReasonOf(err) {
	case instance.ReasonTimeout:
		return invalidf("body", "was announced and did not arrive within %s", b.timeout)
	case instance.ReasonCancelled:
		return err
	default:
		return nil
	}
}

// replaceBody gives r the bytes that were read of it.
func replaceBody(r *http.Request, data []byte) {
	r.Body = io.NopCloser(bytes.NewReader(data))
	r.ContentLength = int64(len(data))
}

// checkMediaType accepts JSON that nothing is wrapped around.
func checkMediaType(h http.Header) error {
	mediaType, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset := params["charset"]
	if err != nil || mediaType != "application/json" || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return instance.Errorf(instance.ReasonUnsupportedMediaType, "the body must be application/json")
	}
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return instance.Errorf(instance.ReasonUnsupportedMediaType, "the body must not be compressed or encoded")
	}
	return nil
}
