package http

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// respond answers r with v as JSON. The answer is encoded before its head goes
// out, so that what cannot be encoded is a problem and not half an answer.
func respond(w http.ResponseWriter, r *http.Request, status int, v any) {
	var buf bytes.Buffer
	if err := encodeJSON(&buf, v); err != nil {
		fail(w, r, fmt.Errorf("encode answer: %w", err))
		return
	}
	respondBytes(w, r, status, "application/json", buf.Bytes())
}

// encodeJSON leaves <, > and & as they are: nothing of ours is pasted into HTML,
// and people read it.
func encodeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// respondBytes answers r with body.
func respondBytes(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	// The client may be gone; there is nobody left to tell.
	_, _ = w.Write(body)
}
