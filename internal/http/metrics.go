package http

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// metrics are the request metrics. Labels are bounded: routes are patterns,
// methods and kinds come from fixed sets, statuses from the answers table.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	warnings *prometheus.CounterVec
	inFlight prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvm2d_http_requests_total",
			Help: "Finished requests by route, method, status and the error's kind (empty on success).",
		}, []string{"route", "method", "status", "kind"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "kvm2d_http_request_duration_seconds",
			Help:    "Time from the request's head to the end of the answer.",
			Buckets: []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900},
		}, []string{"route", "method"}),
		warnings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvm2d_http_request_warnings_total",
			Help: "Warnings on requests' log lines, such as a delete on a host that is not configured.",
		}, []string{"route", "method"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kvm2d_http_requests_in_flight",
			Help: "Requests under way.",
		}),
	}
	// A series that begins with its first refusal would not show that one as an increase.
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			m.requests.WithLabelValues(unmatched, method, strconv.Itoa(status), string(instance.Permanent))
		}
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.warnings, m.inFlight} {
		if err := reg.Register(c); err != nil {
			errs = append(errs, fmt.Errorf("register request metrics: %w", err))
		}
	}
	return m, errors.Join(errs...)
}

func (m *metrics) observe(route, method string, status int, kind instance.Kind, warnings int, took time.Duration) {
	method = boundedMethod(method)
	m.requests.WithLabelValues(route, method, strconv.Itoa(status), string(kind)).Inc()
	m.duration.WithLabelValues(route, method).Observe(took.Seconds())
	if warnings > 0 {
		m.warnings.WithLabelValues(route, method).Add(float64(warnings))
	}
}

// boundedMethod keeps made-up methods from becoming labels.
func boundedMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	default:
		return "other"
	}
}
