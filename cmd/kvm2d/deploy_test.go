package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	rulesFile     = "../../deploy/prometheus/kvm2d.rules.yaml"
	rulesTestFile = "../../deploy/prometheus/kvm2d.rules.test.yaml"
	dashboardFile = "../../deploy/grafana/kvm2d.json"
)

// TestDeploy_namesOnlyMetricsThatExist holds rules, their tests and the dashboard
// against the metrics of the page, which are those of the daemon.
func TestDeploy_namesOnlyMetricsThatExist(t *testing.T) {
	known := documented(t)
	for _, file := range []string{rulesFile, rulesTestFile, dashboardFile} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\bkvm2d_[a-z0-9_]+`).FindAllString(string(text), -1)
		if len(names) < 10 {
			t.Errorf("%s: got %d names of metrics, want more", file, len(names))
		}
		for _, name := range names {
			if !exists(known, name) {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
	}
}

// exists reports whether name is a metric, or a series of a histogram.
func exists(known map[string]string, name string) bool {
	if kind := known[name]; kind != "" {
		return !strings.HasPrefix(kind, "histogram ")
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if family, ok := strings.CutSuffix(name, suffix); ok && strings.HasPrefix(known[family], "histogram ") {
			return true
		}
	}
	return false
}

// TestDeploy_dashboardShowsEveryMetric leaves no number without a place.
func TestDeploy_dashboardShowsEveryMetric(t *testing.T) {
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(text) {
		t.Error("the dashboard is not JSON")
	}
	// Warnings are for the log, the number of a download's tries for the API, success is told by its opposite, and the
	// certificate's time by an alert.
	elsewhere := map[string]bool{
		"kvm2d_http_request_warnings_total": true, "kvm2d_image_download_attempt": true,
		"kvm2d_image_downloaded_bytes_total": true, "kvm2d_config_last_reload_success_timestamp_seconds": true,
		"kvm2d_tls_certificate_start_timestamp_seconds": true, "kvm2d_tls_certificate_expiration_timestamp_seconds": true,
	}
	for name := range documented(t) {
		if !elsewhere[name] && !strings.Contains(string(text), name) {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// TestDeploy_everyAlertIsTestedAndExplained wants of each alert a case in which
// it fires, one in which it must not, and a place in the troubleshooting page.
func TestDeploy_everyAlertIsTestedAndExplained(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert string }
		}
	}
	readYAML(t, rulesFile, &rules)
	var cases struct {
		Tests []struct {
			Alerts []struct {
				Name string `yaml:"alertname"`
				Exp  []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	readYAML(t, rulesTestFile, &cases)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range cases.Tests {
		for _, a := range test.Alerts {
			fires[a.Name] = fires[a.Name] || len(a.Exp) > 0
			silent[a.Name] = silent[a.Name] || len(a.Exp) == 0
		}
	}
	page, err := os.ReadFile("../../docs/operations/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			n++
			if !fires[r.Alert] || !silent[r.Alert] {
				t.Errorf("%s: fires in a test: %v, is silent in one: %v; want both", r.Alert, fires[r.Alert], silent[r.Alert])
			}
			if !strings.Contains(string(page), "`"+r.Alert+"`") {
				t.Errorf("%s is not in the troubleshooting page", r.Alert)
			}
		}
	}
	if n < 5 {
		t.Errorf("got %d alerts, want more", n)
	}
}
