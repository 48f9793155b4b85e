package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

var healthRules = []rule{
	{"H1", "health has one entry per host, in one order, and sums them up", checkH1},
	{"H2", "an entry says how its host is, and what is known of it", checkH2},
}

// healthReport reads GET /health, whose 503 is a report too. An overloaded
// service answers with a problem instead; that is an error here.
func (s *session) healthReport(ctx context.Context) (answer, health, error) {
	a, err := s.get(ctx, "/health")
	if err != nil {
		return a, health{}, err
	}
	var h health
	if err := json.Unmarshal(a.body, &h); err != nil || mediaType(a) != "application/json" {
		return a, h, fmt.Errorf("GET /health is no report: %s", a)
	}
	return a, h, nil
}

func (h health) names() []string {
	names := make([]string, 0, len(h.Hosts))
	for _, entry := range h.Hosts {
		names = append(names, entry.Host)
	}
	return names
}

func checkH1(ctx context.Context, p *probe) error {
	a, first, err := p.healthReport(ctx)
	if err != nil {
		return err
	}
	var missing []string
	for _, o := range p.offered {
		if !slices.Contains(first.names(), o.Host) {
			missing = append(missing, "no entry for "+o.Host)
		}
	}
	p.none(missing, "every placement's host has an entry")
	p.that(len(slices.Compact(slices.Sorted(slices.Values(first.names())))) == len(first.Hosts), "no host has two", "got %v", first.names())

	ready := 0
	for _, entry := range first.Hosts {
		if entry.ready() {
			ready++
		}
	}
	want, status := "degraded", http.StatusOK
	switch ready {
	case len(first.Hosts):
		want = "ok"
	case 0:
		want, status = "down", http.StatusServiceUnavailable
	}
	p.that(first.Status == want && a.status == status, "status and HTTP status sum the entries up",
		"%d of %d are ready, and it is %d %q", ready, len(first.Hosts), a.status, first.Status)

	_, second, err := p.healthReport(ctx)
	if err != nil {
		return err
	}
	p.that(slices.Equal(first.names(), second.names()), "the order stays", "got %v, then %v", first.names(), second.names())
	return nil
}

var healthReasons = []string{
	"Ready", "Unreachable", "Timeout", "AuthenticationFailed", "HostKeyRejected", "CredentialsUnavailable", "LibvirtUnavailable",
	"LibvirtTooOld", "PoolNotFound", "PoolNotActive", "FirmwareMissing", "Misconfigured", "Maintenance",
}

// factsOfReady are the details that a host which is ready cannot lack.
var factsOfReady = []string{
	"user", "hostname", "hostUUID", "libvirtVersion", "domainType", "firmware", "pool", "poolState", "poolCapacityGiB", "poolAvailableGiB", "memoryFreeMiB",
}

func checkH2(ctx context.Context, p *probe) error {
	_, report, err := p.healthReport(ctx)
	if err != nil {
		return err
	}
	var shape, reasons, facts []string
	for _, e := range report.Hosts {
		if e.Host == "" || e.Ready == nil || e.Message == nil || e.LatencyMS == nil || *e.LatencyMS < 0 || e.Details == nil {
			shape = append(shape, fmt.Sprintf("%+v", e))
		}
		if !slices.Contains(healthReasons, e.Reason) || e.ready() != (e.Reason == "Ready") {
			reasons = append(reasons, fmt.Sprintf("%s: ready is %t and reason %q", e.Host, e.ready(), e.Reason))
		}
		for _, fact := range factsOfReady {
			if _, ok := e.Details[fact]; e.ready() && !ok {
				facts = append(facts, fmt.Sprintf("%s: %s is missing", e.Host, fact))
			}
		}
	}
	p.none(shape, "host, ready, reason, message, latencyMs and details are there")
	p.none(reasons, "the reason is a known word, Ready if and only if the host is ready")
	p.none(facts, "a host that is ready has all its facts")
	return nil
}
