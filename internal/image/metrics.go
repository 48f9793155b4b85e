package image

import (
	"github.com/prometheus/client_golang/prometheus"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// metrics are what the cache tells Prometheus. Labels are configured names and
// reasons, so their number is bounded.
type metrics struct {
	asked *prometheus.CounterVec
	bytes *prometheus.CounterVec
	ends  *prometheus.CounterVec
	done  *prometheus.GaugeVec
	total *prometheus.GaugeVec
	rate  *prometheus.GaugeVec
	try   *prometheus.GaugeVec
	swept *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"host", "image"})
	}
	m := &metrics{
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvm2d_image_requests_total", Help: "Creates that asked for an image by result: hit (it was on the host), or miss.",
		}, []string{"host", "image", "result"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvm2d_image_downloaded_bytes_total", Help: "Bytes read from sources by downloads that ended, whatever became of them.",
		}, []string{"host", "image"}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvm2d_image_downloads_total", Help: "Image downloads that ended, by reason (Ready for success).",
		}, []string{"host", "image", "reason"}),
		done:  gauge("kvm2d_image_download_done_bytes", "Bytes of the source that the running download has read."),
		total: gauge("kvm2d_image_download_total_bytes", "Bytes of the source that the running download will read."),
		rate:  gauge("kvm2d_image_download_rate_bytes_per_second", "Rate of the running download."),
		try:   gauge("kvm2d_image_download_attempt", "Requests to the source that the running download has made."),
		swept: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvm2d_image_partials_swept_total", Help: "Dead partial images that were removed from a pool.",
		}, []string{"host"}),
	}
	reg.MustRegister(m.asked, m.bytes, m.ends, m.done, m.total, m.rate, m.try, m.swept)
	return m
}

func (m *metrics) began(k key) { m.progress(k, snapshot{}) }

func (m *metrics) progress(k key, s snapshot) {
	m.done.WithLabelValues(k.host, k.image).Set(float64(s.done))
	m.total.WithLabelValues(k.host, k.image).Set(float64(s.total))
	m.rate.WithLabelValues(k.host, k.image).Set(float64(s.bytesPerSecond))
	m.try.WithLabelValues(k.host, k.image).Set(float64(s.attempt))
}

// asks counts one create that asked for an image; hit tells that it was there.
func (m *metrics) asks(k key, hit bool) {
	result := "miss"
	if hit {
		result = "hit"
	}
	m.asked.WithLabelValues(k.host, k.image, result).Inc()
}

// ended counts the end, after read bytes of the source, and takes the running download's figures away.
func (m *metrics) ended(k key, read int64, err error) {
	reason := instance.ReasonReady
	if err != nil {
		reason = instance.ReasonOf(err)
	}
	m.ends.WithLabelValues(k.host, k.image, string(reason)).Inc()
	m.bytes.WithLabelValues(k.host, k.image).Add(float64(read))
	for _, g := range []*prometheus.GaugeVec{m.done, m.total, m.rate, m.try} {
		g.DeleteLabelValues(k.host, k.image)
	}
}
