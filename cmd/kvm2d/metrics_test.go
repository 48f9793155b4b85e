package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
	httpapi "gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/http"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// metricsPage is where people read of the metrics.
const metricsPage = "../../docs/operations/monitoring.md"

// documented are the metrics of the page, each "type labels".
func documented(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(kvm2d_[a-z0-9_]+)` \\| (\\w+) \\| ([a-z, ]*?) *\\|").FindAllStringSubmatch(string(page), -1) {
		labels := strings.FieldsFunc(m[3], func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(labels)
		found[m[1]] = m[2] + " " + strings.Join(labels, ",")
	}
	return found
}

// scrape returns our own families as /metrics has them now.
func (d *running) scrape() map[string]*dto.MetricFamily {
	d.t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(d.text(d.admin + "/metrics")))
	if err != nil {
		d.t.Fatal(err)
	}
	maps.DeleteFunc(all, func(name string, _ *dto.MetricFamily) bool { return !strings.HasPrefix(name, "kvm2d_") })
	return all
}

// familyOf is what the page says of a family.
func familyOf(f *dto.MetricFamily) string {
	names := map[string]bool{}
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			names[l.GetName()] = true
		}
	}
	return strings.ToLower(f.GetType().String()) + " " + strings.Join(slices.Sorted(maps.Keys(names)), ",")
}

// TestMetrics_areThoseOfThePage runs a daemon through all that it counts, and
// holds its metrics against the page, and their labels against their bounds.
func TestMetrics_areThoseOfThePage(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	held := heldMirror{asked: make(chan struct{}, 1), letGo: make(chan struct{})}
	d := startDaemon(t, func(o *appOptions) {
		o.Config.ProbeInterval = 50 * time.Millisecond
		o.Backends.downloads = held
	})
	made := d.create()
	<-held.asked
	got := map[string]*dto.MetricFamily{}
	until(t, "the metrics of a running download", func() bool {
		maps.Copy(got, d.scrape())
		return got["kvm2d_image_download_attempt"] != nil
	})
	close(held.letGo)
	if a := <-made; a.status != http.StatusCreated {
		t.Fatalf("create: got %+v", a)
	}
	d.strangers()
	until(t, "the metrics of a look at the hosts", func() bool {
		return d.metric(`kvm2d_image_bytes{host="sim-1",image="debian-13"}`) > 0
	})
	maps.Copy(got, d.scrape())
	maps.Copy(got, fileMetrics(t))

	want := documented(t)
	// What is swept takes two stall limits to be found dead, and abandoned calls need an impatient caller.
	rare := []string{"kvm2d_image_partials_swept_total", "kvm2d_libvirt_calls_abandoned_total"}
	for _, name := range rare {
		if want[name] == "" {
			t.Errorf("the page lacks %s", name)
		}
		if got[name] == nil {
			delete(want, name)
		}
	}
	gotKinds := map[string]string{}
	for name, family := range got {
		gotKinds[name] = familyOf(family)
		checkLabels(t, name, family)
		if family.GetHelp() == "" {
			t.Errorf("%s has no help", name)
		}
	}
	if diff := cmp.Diff(want, gotKinds); diff != "" {
		t.Errorf("metrics (-page +scraped):\n%s", diff)
	}
	if err := d.end(); err != nil {
		t.Error(err)
	}
	d.client.CloseIdleConnections()
}

// fileMetrics are the metrics of a daemon with files of tokens and certificates.
func fileMetrics(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"tokens":  []byte("caller full open-sesame\n"),
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	registry := prometheus.NewRegistry()
	auth := config.Auth{Token: &config.TokenAuth{File: path("tokens")}, TokenReview: &config.TokenReviewAuth{Audience: "a", CAFile: path("tls.crt")}}
	if _, err := authenticators(config.Server{Listen: "127.0.0.1:0", Auth: auth}, false, slog.New(slog.DiscardHandler), registry); err != nil {
		t.Fatal(err)
	}
	_, err = httpapi.NewTLSConfig(httpapi.TLSOptions{
		CertFile: path("tls.crt"), KeyFile: path("tls.key"), Log: slog.New(slog.DiscardHandler), Registry: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*dto.MetricFamily{}
	for _, f := range families {
		got[f.GetName()] = f
	}
	return got
}

// strangers asks for what a hostile caller could hope to find in the metrics.
func (d *running) strangers() {
	for n := range 20 {
		name := fmt.Sprintf("evil-%d", n)
		d.call(http.MethodGet, d.api+"/"+name, "")
		d.call("EVIL"+strconv.Itoa(n), d.api+"/instances", "")
		d.call(http.MethodGet, d.api+"/instances?host="+name, "")
		d.call(http.MethodGet, d.api+"/instances/hosts/"+name+"/domains/"+name, "")
		d.call(http.MethodDelete, d.api+"/instances/hosts/"+name+"/domains/"+name, "")
		d.call(http.MethodPost, d.api+"/instances", `{"name":"`+name+`","placement":"`+name+`"}`)
		d.call(http.MethodPost, d.api+"/images/"+name+"/pull?host="+name, "")
	}
	d.call(http.MethodGet, d.api+"/instances/hosts/sim-1/domains/proxy-1", "")
	d.call(http.MethodPost, d.api+"/instances", `{"name":"proxy-2","placement":"sim-1"}`)
}

// bounds are what the values of a label may be.
func bounds() map[string]func(string) bool {
	among := func(words ...string) func(string) bool {
		return func(v string) bool { return slices.Contains(words, v) }
	}
	reasons := []string{string(instance.ReasonReady), string(instance.ReasonMaintenance)}
	for _, r := range instance.Reasons() {
		reasons = append(reasons, string(r))
	}
	matching := func(pattern string) func(string) bool { return regexp.MustCompile(pattern).MatchString }
	return map[string]func(string) bool{
		"host": among("sim-1", "sim-2"), "pool": among("default"), "image": among("debian-13"),
		"state": among("Provisioning", "Running", "Stopped"), "lane": among("fast", "slow", "agent", "transfer", "fresh"),
		"step": among("image", "volumes", "define", "start"), "result": among("hit", "miss"),
		"reason": among(reasons...), "outcome": among(append(reasons, "ok", "failed", "applied", "unchanged", "refused")...),
		"files": among("tls", "tokens", "tokenReviewCA"),
		"kind":  among("", "NotFound", "Permanent", "Transient", "QuotaExceeded"), "status": matching(`^[1-5][0-9]{2}$`),
		"method":  among("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"),
		"route":   matching(`^(/[a-z.-]*|/\{[a-z]+\})+$|^unmatched$`),
		"call":    matching(`^[A-Z][A-Za-z]+$`),
		"version": matching("."), "revision": matching(""), "goversion": matching("^go"),
	}
}

// maxSeries is far above what a daemon with two hosts needs in one family.
const maxSeries = 100

func checkLabels(t *testing.T, name string, family *dto.MetricFamily) {
	t.Helper()
	allowed := bounds()
	if n := len(family.GetMetric()); n > maxSeries {
		t.Errorf("%s has %d series, want at most %d", name, n, maxSeries)
	}
	for _, m := range family.GetMetric() {
		for _, l := range m.GetLabel() {
			if ok := allowed[l.GetName()]; ok == nil || !ok(l.GetValue()) || strings.Contains(l.GetValue(), "evil") {
				t.Errorf("%s has %s=%q", name, l.GetName(), l.GetValue())
			}
		}
	}
}
