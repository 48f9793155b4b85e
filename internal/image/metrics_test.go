package image

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetrics_hitsAndMisses(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	k := newKit(t, newMemPool(testHost), &site{content: content})
	img := imageOf(content)
	for range 3 {
		k.mustEnsure(t, img)
	}
	for result, want := range map[string]float64{"miss": 1, "hit": 2} {
		if got := testutil.ToFloat64(k.cache.metrics.asked.WithLabelValues(testHost, "debian", result)); got != want {
			t.Errorf("%s: got %v, want %v", result, got, want)
		}
	}
}
