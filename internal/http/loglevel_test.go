package http

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// word is a LogLevel that knows two.
type word struct{ is string }

func (w *word) Level() string { return w.is }

func (w *word) SetLevel(to string) error {
	if to != "info" && to != "debug" {
		return errors.New("want info or debug")
	}
	w.is = to
	return nil
}

func TestLogLevel(t *testing.T) {
	for _, tt := range []struct {
		name, method, peer, host, body string
		status                         int
		level, answer                  string
	}{
		{"shown to all", http.MethodGet, "10.0.0.9:1", "kvm2d:9090", "", 200, "info", "info\n"},
		{"set", http.MethodPut, "127.0.0.1:1", "localhost:9090", "debug\n", 200, "debug", "debug\n"},
		{"set over IPv6", http.MethodPut, "[::1]:1", "[::1]:9090", "debug", 200, "debug", "debug\n"},
		{"an unknown word", http.MethodPut, "127.0.0.1:1", "localhost:9090", "loud", 400, "info", "want info or debug"},
		{"a long body", http.MethodPut, "127.0.0.1:1", "localhost:9090", strings.Repeat("debug", 99), 400, "info", "InvalidRequest"},
		{"from elsewhere", http.MethodPut, "10.0.0.9:1", "localhost:9090", "debug", 403, "info", "Forbidden"},
		{"from a page that rebound its name", http.MethodPut, "127.0.0.1:1", "evil.example:9090", "debug", 403, "info", "Forbidden"},
		{"another method", http.MethodPost, "127.0.0.1:1", "localhost:9090", "debug", 405, "info", "MethodNotAllowed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			level := &word{is: "info"}
			h := AdminHandler(AdminOptions{Readiness: &Readiness{}, Metrics: http.NotFoundHandler(), LogLevel: level})
			req := httptest.NewRequestWithContext(t.Context(), tt.method, "/loglevel", strings.NewReader(tt.body))
			req.RemoteAddr, req.Host = tt.peer, tt.host
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, req)
			if rec.Code != tt.status || level.is != tt.level || !strings.Contains(rec.Body.String(), tt.answer) {
				t.Errorf("got %d, level %s and %q; want %d, %s and %q", rec.Code, level.is, rec.Body, tt.status, tt.level, tt.answer)
			}
		})
	}
}
