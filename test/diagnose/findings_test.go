//go:build lab

package diagnose_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// found prints what one of the four places said.
func (b *bench) found(place, format string, args ...any) {
	b.Helper()
	b.Logf("%-8s %s", place, fmt.Sprintf(format, args...))
}

// healthIs asks for a host's entry and compares its reason; word must be in it.
func (b *bench) healthIs(host, reason, word string) error {
	b.Helper()
	_, _, body := b.fetch(http.MethodGet, b.api+"/health", "")
	var report struct{ Hosts []json.RawMessage }
	if err := json.Unmarshal(body, &report); err != nil {
		return fmt.Errorf("%w in %s", err, body)
	}
	for _, entry := range report.Hosts {
		var h struct{ Host, Reason, Message string }
		if err := json.Unmarshal(entry, &h); err != nil {
			return err
		}
		if h.Host != host {
			continue
		}
		if h.Reason != reason || !strings.Contains(string(entry), word) {
			return fmt.Errorf("got %s, want %s and %q in it", entry, reason, word)
		}
		if word != "" {
			b.found("health", "%s: %s: %s (%s)", h.Host, h.Reason, h.Message, word)
		}
		return nil
	}
	return fmt.Errorf("no host %s in %s", host, body)
}

// metricIs looks for a series whose value is under below.
func (b *bench) metricIs(series string, below float64) error {
	b.Helper()
	_, _, body := b.fetch(http.MethodGet, b.admin+"/metrics", "")
	for line := range strings.Lines(string(body)) {
		rest, ok := strings.CutPrefix(line, series+" ")
		if !ok {
			continue
		}
		var value float64
		if _, err := fmt.Sscan(rest, &value); err != nil {
			return err
		}
		if value >= below {
			return fmt.Errorf("%s is %v, want less than %v", series, value, below)
		}
		b.found("metric", "%s %v", series, value)
		return nil
	}
	return fmt.Errorf("no series %s", series)
}

// problem is what the caller of a create got.
type problem struct {
	Status                                     int
	Kind, Reason, Host, Detail, Instance, Type string
}

// create asks for an instance, which must fail.
func (b *bench) create(placement, name string) problem {
	b.Helper()
	status, header, body := b.fetch(http.MethodPost, b.api+"/instances", fmt.Sprintf(`{"name":%q,"placement":%q}`, name, placement))
	var p problem
	if err := json.Unmarshal(body, &p); err != nil || status != p.Status || p.Instance != header.Get("X-Request-Id") {
		b.Fatalf("got status %d, X-Request-Id %q and %s: %v; want a problem", status, header.Get("X-Request-Id"), body, err)
	}
	return p
}

func (b *bench) checkProblem(f fault, p problem) {
	b.Helper()
	if p.Status != f.status || p.Kind != f.kind || p.Reason != f.reason || p.Host != f.host || !strings.Contains(p.Detail, f.text) ||
		!strings.HasSuffix(p.Type, "#"+strings.ToLower(f.reason)) {
		b.Errorf("got problem %+v, want status %d, %s, %s, host %s and %q in its detail", p, f.status, f.kind, f.reason, f.host, f.text)
		return
	}
	b.found("problem", "%d %s %s: %s", p.Status, p.Kind, p.Reason, p.Detail)
}

// checkLog looks for the request's one line.
func (b *bench) checkLog(f fault, name string, p problem) {
	b.Helper()
	b.until("the request's line", func() error {
		for _, line := range b.lines() {
			if line["msg"] != "request" || line["request_id"] != p.Instance {
				continue
			}
			text, _ := line["error"].(string)
			if line["host"] != f.host || line["instance"] != name || line["kind"] != f.kind || line["reason"] != f.reason || !strings.Contains(text, f.text) {
				b.Errorf("got line %v, want host %s, instance %s, %s, %s and %q in its error", line, f.host, name, f.kind, f.reason, f.text)
				return nil
			}
			b.found("log", "level=%v host=%v instance=%v reason=%v error=%q", line["level"], line["host"], line["instance"], line["reason"], text)
			return nil
		}
		return fmt.Errorf("no line of request %s", p.Instance)
	})
}

// changeLogged looks for the line of the probe that saw the host change.
func (b *bench) changeLogged(host, reason string) error {
	b.Helper()
	for _, line := range b.lines() {
		if line["msg"] == "host is not ready" && line["host"] == host && line["reason"] == reason {
			return nil
		}
	}
	return fmt.Errorf("no line says that %s is not ready because of %s", host, reason)
}
