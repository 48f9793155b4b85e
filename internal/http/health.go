package http

import (
	"net/http"
	"strconv"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// GetHealth serves GET /health: the report, with 503 only when no host is ready.
func (h *handlers) GetHealth(w http.ResponseWriter, r *http.Request) {
	report := h.service.Check(r.Context())
	status := http.StatusOK
	if report.Status == instance.HealthDown {
		status = http.StatusServiceUnavailable
		wait := retryAfter(instance.ReasonUnreachable, 0)
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)))
	}
	respond(w, r, status, reportJSON(report))
}
