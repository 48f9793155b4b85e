package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// The outcomes of a step.
const (
	stepDone   = "ok"
	stepFailed = "failed"
)

// createSteps returns the observer of creates' steps, whose numbers are in reg.
func createSteps(reg prometheus.Registerer) func(host string, step instance.CreateStep, took time.Duration, err error) {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "kvm2d_create_step_duration_seconds",
		Help:    "Time of the steps of creates: image, volumes, define, start. Waiting for other work on the name or host is in none.",
		Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300, 900},
	}, []string{"host", "step", "outcome"})
	reg.MustRegister(seconds)
	return func(host string, step instance.CreateStep, took time.Duration, err error) {
		outcome := stepDone
		if err != nil {
			outcome = stepFailed
		}
		seconds.WithLabelValues(host, string(step), outcome).Observe(took.Seconds())
	}
}
