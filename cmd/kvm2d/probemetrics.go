package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// probeMetrics are the gauges of what a prober saw last. They are made from one
// snapshot at each scrape: what was not seen is absent, and no scrape meets half
// of a look.
type probeMetrics struct {
	last func() snapshot

	at, ready, capacity, available, instances, images *prometheus.Desc
}

func newProbeMetrics(last func() snapshot) *probeMetrics {
	return &probeMetrics{
		last:      last,
		at:        prometheus.NewDesc("kvm2d_probe_timestamp_seconds", "When the hosts were last looked at; 0 before the first look.", nil, nil),
		ready:     prometheus.NewDesc("kvm2d_host_ready", "Whether the host can take instances; the reason is that of the last look.", []string{"host", "reason"}, nil),
		capacity:  prometheus.NewDesc("kvm2d_pool_capacity_bytes", "Size of the host's storage pool.", []string{"host", "pool"}, nil),
		available: prometheus.NewDesc("kvm2d_pool_available_bytes", "Free space in the host's storage pool.", []string{"host", "pool"}, nil),
		instances: prometheus.NewDesc("kvm2d_instances", "Instances of ours on the host by state.", []string{"host", "state"}, nil),
		images:    prometheus.NewDesc("kvm2d_image_bytes", "Space that the contents of an image take in the host's pool.", []string{"host", "image"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *probeMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.at, m.ready, m.capacity, m.available, m.instances, m.images} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *probeMetrics) Collect(ch chan<- prometheus.Metric) {
	s := m.last()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if s.At.IsZero() {
		gauge(m.at, 0)
		return
	}
	gauge(m.at, float64(s.At.UnixNano())/1e9)
	counts := countInstances(s.Page)
	for _, h := range s.Report.Hosts {
		ready := 0.0
		if h.Ready {
			ready = 1
		}
		gauge(m.ready, ready, h.Host, string(h.Reason))
		if d := h.Details; d.PoolCapacityGiB != nil && d.PoolAvailableGiB != nil {
			gauge(m.capacity, *d.PoolCapacityGiB*gib, h.Host, d.Pool)
			gauge(m.available, *d.PoolAvailableGiB*gib, h.Host, d.Pool)
		}
		if unreachable(s.Page, h.Host) {
			continue
		}
		for _, state := range []instance.State{instance.Provisioning, instance.Running, instance.Stopped} {
			gauge(m.instances, counts[placed{h.Host, state}], h.Host, string(state))
		}
	}
	for at, bytes := range imageBytes(s.Images) {
		gauge(m.images, bytes, at.host, at.image)
	}
}

const gib = 1 << 30

// placed is where an instance is and how it does.
type placed struct {
	host  string
	state instance.State
}

func countInstances(p instance.Page) map[placed]float64 {
	counts := map[placed]float64{}
	for _, i := range p.Items {
		counts[placed{i.ID.Host, i.State}]++
	}
	return counts
}

// stored is an image on a host.
type stored struct{ host, image string }

// imageBytes adds up the contents of each image that are on each host.
func imageBytes(rows []instance.ImageStatus) map[stored]float64 {
	sums := map[stored]float64{}
	for _, row := range rows {
		if row.State == instance.ImageReady {
			sums[stored{row.Host, row.Image}] += float64(row.SizeBytes)
		}
	}
	return sums
}
