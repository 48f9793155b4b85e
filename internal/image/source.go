package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// errRestart is in the chain when the source no longer offers what was begun:
// what has been written so far is useless, only a start from the first byte helps.
var errRestart = errors.New("the source changed")

// errStalled is why a request is cancelled that brought no byte for too long.
var errStalled = errors.New("no bytes from the source")

// source fetches images over HTTP.
type source struct {
	client *http.Client
	// stall is how long a source may bring no byte, whatever is tried meanwhile.
	stall time.Duration
	// resumes bounds how often one download goes on after a cut.
	resumes int
}

// validator says which version of a resource a response was of.
type validator struct {
	etag         string
	lastModified string
}

func (v validator) empty() bool { return v == validator{} }

// differs reports whether other is certainly another version.
func (v validator) differs(other validator) bool {
	return (v.etag != "" && other.etag != "" && v.etag != other.etag) ||
		(v.lastModified != "" && other.lastModified != "" && v.lastModified != other.lastModified)
}

// connection is one open response. Cancel first, then close: Close waits for a
// Read that is blocked.
type connection struct {
	body      io.ReadCloser
	cancel    context.CancelCauseFunc
	total     int64
	validator validator
}

func (c *connection) close() {
	c.cancel(nil)
	_ = c.body.Close() // nothing was written
}

// position is where a download goes on.
type position struct {
	offset    int64
	total     int64
	validator validator
}

// connect asks for img from the position on and checks the answer's head. It
// takes at most wait. Errors are *instance.Error without a host: transient ones
// are worth another try, errRestart in the chain calls for a new start.
func (s *source) connect(ctx context.Context, img instance.Image, from position, wait time.Duration) (*connection, error) {
	op := downloadOp(img)
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, itineraryKey{}, &itinerary{}))
	req, err := newRequest(ctx, img, from)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	timer := time.AfterFunc(wait, func() { cancel(errStalled) })
	resp, err := s.client.Do(req)
	timer.Stop()
	if err != nil {
		stalled := errors.Is(context.Cause(ctx), errStalled)
		cancel(nil)
		return nil, connectError(op, img, err, stalled)
	}
	conn, err := accept(op, img, resp, from)
	if err != nil {
		cancel(nil)
		_ = resp.Body.Close() // the answer is refused already
		return nil, err
	}
	conn.cancel = cancel
	return conn, nil
}

func downloadOp(img instance.Image) string { return "download image " + img.Name }

func newRequest(ctx context.Context, img instance.Image, from position) (*http.Request, error) {
	u, err := url.Parse(img.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, &instance.Error{
			Reason: instance.ReasonImageUnavailable, Op: downloadOp(img), Detail: "its URL is not an http or https URL",
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, &instance.Error{Reason: instance.ReasonImageUnavailable, Op: downloadOp(img), Detail: "its URL cannot be requested"}
	}
	req.Header.Set("User-Agent", "kvm2d")
	req.Header.Set("Accept-Encoding", "identity")
	if from.offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from.offset))
		if v := from.validator; v.etag != "" {
			req.Header.Set("If-Range", v.etag)
		} else if v.lastModified != "" {
			req.Header.Set("If-Range", v.lastModified)
		}
	}
	return req, nil
}

// connectError classifies a request that got no answer. Only what a repeat
// cannot change is permanent.
func connectError(op string, img instance.Image, err error, stalled bool) error {
	e := &instance.Error{Reason: instance.ReasonDownloadFailed, Op: op, Detail: "ask " + shownURL(img.URL), Err: safeCause(err)}
	switch {
	case stalled:
		e.Err = errStalled
	case refusedRedirect(err) != nil:
		e.Reason = instance.ReasonImageUnavailable
	}
	return e
}

// accept checks an answer's status and headers.
func accept(op string, img instance.Image, resp *http.Response, from position) (*connection, error) {
	refuse := func(r instance.Reason, cause error, format string, args ...any) (*connection, error) {
		detail := shownURL(img.URL) + " " + fmt.Sprintf(format, args...)
		return nil, &instance.Error{Reason: r, Op: op, Detail: detail, Err: cause}
	}
	conn := &connection{body: resp.Body, total: resp.ContentLength, validator: validatorOf(resp.Header)}
	switch status := resp.StatusCode; {
	case status == http.StatusOK && from.offset > 0:
		return refuse(instance.ReasonDownloadFailed, errRestart, "sent the whole again instead of the rest")
	case status == http.StatusOK:
	case status == http.StatusPartialContent && from.offset > 0:
		if !continues(resp.Header, from) || from.validator.differs(conn.validator) {
			return refuse(instance.ReasonDownloadFailed, errRestart, "sent another part than asked for")
		}
		conn.total = from.total
	case status == http.StatusRequestedRangeNotSatisfiable && from.offset > 0:
		return refuse(instance.ReasonDownloadFailed, errRestart, "has no byte %d any more", from.offset)
	case isTransientStatus(status):
		return refuse(instance.ReasonDownloadFailed, nil, "answered %d", status)
	default:
		return refuse(instance.ReasonImageUnavailable, nil, "answered %d", status)
	}
	if enc := resp.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return refuse(instance.ReasonImageUnavailable, nil, "sent an encoded body although identity was asked for")
	}
	if conn.total < 0 {
		return refuse(instance.ReasonImageUnavailable, nil, "sent no Content-Length, which is needed to know the room an image takes")
	}
	if conn.total == 0 || conn.total > maxVirtualBytes {
		return refuse(instance.ReasonImageInvalid, nil, "has a file of %d bytes, which is no disk", conn.total)
	}
	return conn, nil
}

// isTransientStatus tells the answers that may be others a little later.
func isTransientStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	default:
		return status >= http.StatusInternalServerError
	}
}

// validatorOf takes the strong validators; a weak ETag does not promise equal bytes.
func validatorOf(h http.Header) validator {
	v := validator{etag: h.Get("ETag"), lastModified: h.Get("Last-Modified")}
	if strings.HasPrefix(v.etag, "W/") {
		v.etag = ""
	}
	return v
}

// continues reports whether a 206 is the rest from the position to the end of a
// file of the same length: "bytes <offset>-<total-1>/<total>".
func continues(h http.Header, from position) bool {
	spec, ok := strings.CutPrefix(h.Get("Content-Range"), "bytes ")
	span, total, found := strings.Cut(spec, "/")
	first, last, ranged := strings.Cut(span, "-")
	return ok && found && ranged &&
		first == strconv.FormatInt(from.offset, 10) &&
		last == strconv.FormatInt(from.total-1, 10) &&
		total == strconv.FormatInt(from.total, 10)
}
