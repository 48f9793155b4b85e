package http

import (
	"io"
	"net"
	"net/http"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// LogLevel is how much the service logs, by the words that its operators know.
type LogLevel interface {
	// Level returns the word in force.
	Level() string
	// SetLevel changes it; the error of an unknown word names those that are known.
	SetLevel(word string) error
}

// maxLevelBytes is far above any word.
const maxLevelBytes = 64

// logLevelHandler serves GET and PUT /loglevel, with the word as the body.
type logLevelHandler struct{ level LogLevel }

func (h logLevelHandler) get(w http.ResponseWriter, r *http.Request) {
	respondBytes(w, r, http.StatusOK, "text/plain; charset=utf-8", []byte(h.level.Level()+"\n"))
}

// put takes the word from this machine only. The listener has no authentication
// and others may scrape it; and a web page that rebinds its name to a loopback
// address sends its own name as the host.
func (h logLevelHandler) put(w http.ResponseWriter, r *http.Request) {
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || !isLoopback(peer) || !isLoopback(hostOnly(r.Host)) {
		fail(w, r, instance.Errorf(instance.ReasonForbidden, "the log level is changed over a loopback address only"))
		return
	}
	word, err := io.ReadAll(io.LimitReader(r.Body, maxLevelBytes))
	if err != nil {
		fail(w, r, instance.Errorf(instance.ReasonCancelled, "the body did not arrive"))
		return
	}
	if err := h.level.SetLevel(strings.TrimSpace(string(word))); err != nil {
		fail(w, r, instance.Errorf(instance.ReasonInvalidRequest, "%v", err))
		return
	}
	h.get(w, r)
}
