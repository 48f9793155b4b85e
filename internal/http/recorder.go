package http

import (
	"net/http"
	"time"
)

// writeTimeout bounds how long a client may take to fetch an answer, from its
// first byte on. Work before the first byte is not limited here: a create blocks.
const writeTimeout = time.Minute

// recorder notes status and size of an answer. net/http's own features stay
// reachable through Unwrap.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// Unwrap serves http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader notes the status and starts the clock of the answer.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
		// Not every writer has deadlines (tests); without one the write is unbounded.
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write counts.
func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// started reports whether something went out already.
func (w *recorder) started() bool { return w.status != 0 }
