package libvirtx

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the numbers that every Link of the process reports to.
type Metrics struct {
	callSeconds *prometheus.HistogramVec
	calls       *prometheus.CounterVec
	abandoned   *prometheus.CounterVec
	dialSeconds *prometheus.HistogramVec
	dials       *prometheus.CounterVec
	sessions    *prometheus.GaugeVec
}

// NewMetrics makes them and registers them with reg; a nil reg registers nothing.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		callSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "kvm2d_libvirt_call_duration_seconds",
			Help:    "Time from asking for a libvirt call to its answer, waiting for its turn and for a dial included.",
			Buckets: []float64{.001, .005, .025, .1, .5, 2, 10, 30, 120},
		}, []string{"host", "call"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvm2d_libvirt_calls_total",
			Help: "Libvirt calls by outcome: ok, or the reason of the failure.",
		}, []string{"host", "call", "outcome"}),
		abandoned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvm2d_libvirt_calls_abandoned_total",
			Help: "Libvirt calls whose caller left before the answer.",
		}, []string{"host", "call"}),
		dialSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "kvm2d_libvirt_dial_duration_seconds",
			Help:    "Time of one attempt to connect, SSH handshake and libvirt's open included.",
			Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"host"}),
		dials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvm2d_libvirt_dials_total",
			Help: "Attempts to connect by outcome: ok, or the reason of the failure.",
		}, []string{"host", "outcome"}),
		sessions: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kvm2d_libvirt_sessions",
			Help: "Open connections to the host's libvirt by what they are kept for.",
		}, []string{"host", "lane"}),
	}
	if reg != nil {
		reg.MustRegister(m.callSeconds, m.calls, m.abandoned, m.dialSeconds, m.dials, m.sessions)
	}
	return m
}
