package conformance

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

var listRules = []rule{
	{"L1", "the list has every instance once, by host and name, without uid too", checkL1},
	{"L2", "a list is whole unless partial=true, and says so", checkL2},
	{"L4", "filters: all tags must match; host, placement and state", checkL4},
}

func checkL1(ctx context.Context, p *probe) error {
	m, err := p.main(ctx)
	if err != nil {
		return err
	}
	bare, err := p.withoutUID(ctx)
	if err != nil {
		return err
	}
	a, all, err := p.instances(ctx, "")
	if err != nil {
		return err
	}
	found := all.named(m.name)
	p.that(len(found) == 1 && found[0].Host == p.placement.Host, "an instance is listed, once", "it is there %d times", len(found))
	p.that(len(all.named(bare.name)) == 1, "one without a uid too", "it is there %d times", len(all.named(bare.name)))
	p.that(mediaType(a) == "application/json", "the answer is JSON", "got %s", a)
	_, report, err := p.healthReport(ctx)
	if err != nil {
		return err
	}
	hosts := report.names()
	var disorder []string
	for i, next := range all.Items[min(1, len(all.Items)):] {
		at, to := slices.Index(hosts, all.Items[i].Host), slices.Index(hosts, next.Host)
		if at >= 0 && to >= 0 && (at > to || at == to && all.Items[i].Name >= next.Name) {
			disorder = append(disorder, fmt.Sprintf("%s before %s", all.Items[i].ID, next.ID))
		}
	}
	p.none(disorder, "hosts are in the order of health, then names in theirs")
	return nil
}

func checkL2(ctx context.Context, p *probe) error {
	_, report, err := p.healthReport(ctx)
	if err != nil {
		return err
	}
	down := slices.ContainsFunc(report.Hosts, func(h hostHealth) bool {
		return slices.Contains([]string{"Unreachable", "Timeout", "CredentialsUnavailable", "LibvirtUnavailable"}, h.Reason)
	})
	whole, err := p.get(ctx, "/instances")
	if err != nil {
		return err
	}
	l, _ := decode[list](whole)
	if down {
		p.that(whole.problem().Kind == "Transient", "with a host out of reach the list fails, Transient", "got %s", whole)
	} else {
		p.that(whole.ok() && l.Unreachable != nil && len(l.Unreachable) == 0, "a whole list has unreachable, empty", "got %s", whole)
	}
	partial, err := p.get(ctx, "/instances?partial=true")
	if err != nil {
		return err
	}
	l, _ = decode[list](partial)
	p.that(partial.ok() && l.Items != nil && l.Unreachable != nil, "partial=true answers 200 with items and unreachable", "got %s", partial)
	named := !slices.ContainsFunc(l.Unreachable, func(u unreachable) bool { return u.Host == "" || u.Reason == "" })
	p.that(named && (down || len(l.Unreachable) == 0), "unreachable names the hosts that were left out, and why", "got %s", partial)
	return nil
}

func checkL4(ctx context.Context, p *probe) error {
	m, err := p.main(ctx)
	if err != nil {
		return err
	}
	if _, err := p.withoutUID(ctx); err != nil {
		return err
	}
	mine := "tag=" + url.QueryEscape("conformance="+p.value("run"))
	onHost := "host=" + url.QueryEscape(p.placement.Host)
	var missed, found []string
	for _, row := range []struct {
		query, what string
		only        bool // exactly the main instance; else nothing
	}{
		{mine, "a tag", true},
		{mine + "&tag=" + url.QueryEscape("role=main"), "two tags", true},
		{mine + "&tag=" + url.QueryEscape("role=other"), "two tags, one of another value", false},
		{"tag=" + url.QueryEscape("conformance="+p.value("ru")), "the beginning of a value", false},
		{mine + "&" + onHost, "a tag and its host", true},
		{mine + "&placement=" + url.QueryEscape(p.placement.Name), "a tag and its placement", true},
		{mine + "&placement=" + p.run, "a tag and another placement", false},
		{mine + "&state=Stopped", "a tag and another state", false},
	} {
		a, got, err := p.instances(ctx, "?"+row.query)
		if err != nil {
			return err
		}
		if row.only && (len(got.Items) != 1 || got.Items[0].Name != m.name) {
			missed = append(missed, fmt.Sprintf("%s: got %s", row.what, a))
		}
		if !row.only && (got.Items == nil || len(got.Items) > 0) {
			found = append(found, fmt.Sprintf("%s: got %s", row.what, a))
		}
	}
	p.none(missed, "one tag, two, and a tag with its host or placement find that instance alone")
	p.none(found, "filters of which one does not match give an empty list, not null")
	return p.refusesFilters(ctx)
}

func (p *probe) refusesFilters(ctx context.Context) error {
	var faults []string
	for what, query := range inOrder(map[string]string{
		"a tag without =": "tag=x", "an unknown state": "state=Sleeping", "an empty tag": "tag=", "a host that is no label": "host=A_b",
	}) {
		a, err := p.get(ctx, "/instances?"+query)
		if err != nil {
			return err
		}
		if !a.is(http.StatusBadRequest, "Permanent", "InvalidRequest") {
			faults = append(faults, fmt.Sprintf("%s: got %s", what, a))
		}
	}
	p.none(faults, "a tag without =, an unknown state and the like are 400 InvalidRequest")
	a, err := p.get(ctx, "/instances?host=nohost-"+strings.ToLower(p.run))
	if err != nil {
		return err
	}
	p.refuses(a, http.StatusUnprocessableEntity, "Permanent", "HostNotConfigured", "a host that is not configured")
	return nil
}
