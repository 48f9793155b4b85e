package conformance

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
)

// rule is a rule of the contract and how it is looked at.
type rule struct {
	id    string
	title string
	// check looks at the rule. An error says that it could not go on.
	check func(ctx context.Context, p *probe) error
}

// rules are in the order in which they are looked at: what needs no instance,
// the life of one, its end, and then what all answers so far have in common.
func rules() []rule {
	var all []rule
	for _, group := range [][]rule{
		catalogRules, healthRules, identityRules, listRules, createRules, readRules, surfaceRules,
		bootRules, deleteRules, errorRules, commonRules,
	} {
		all = append(all, group...)
	}
	return all
}

// Run examines an installation. It returns an error when it cannot begin; what
// it finds is in the report. When ctx ends early the rest is blocked, and what
// was made is removed all the same.
func Run(ctx context.Context, settings Settings) (*Report, error) {
	if err := settings.complete(); err != nil {
		return nil, err
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, settings.bound())
	defer cancel()
	s, err := newSession(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	defer s.close()
	r := &Report{URL: settings.URL, Placement: s.placement.Name}
	defer func() { r.Took = time.Since(began) }()
	for _, rule := range rules() {
		r.Findings = append(r.Findings, s.look(ctx, rule))
	}
	r.Version = s.version
	r.Left = s.cleanUp(ctx)
	r.order()
	return r, nil
}

// look looks at one rule.
func (s *session) look(ctx context.Context, r rule) Finding {
	f := Finding{Rule: r.id, Title: r.title}
	if err := r.check(ctx, &probe{session: s, finding: &f}); err != nil {
		f.blocked, f.Why = true, err.Error()
	}
	return f
}

// probe is a rule that is being looked at.
type probe struct {
	*session
	finding *Finding
}

// that notes a claim, and what was seen when it does not hold.
func (p *probe) that(holds bool, what, seen string, args ...any) {
	c := Check{What: what}
	if !holds {
		c.Fault = fmt.Sprintf(seen, args...)
	}
	p.finding.Checks = append(p.finding.Checks, c)
}

// refuses notes the claim that an answer is a certain problem.
func (p *probe) refuses(a answer, status int, kind, reason, what string) {
	p.that(a.is(status, kind, reason), fmt.Sprintf("%s is %d %s", what, status, reason), "got %s", a)
}

// none notes a claim that holds when no faults were found.
func (p *probe) none(faults []string, what string) {
	const shown = 3
	if n := len(faults); n > shown {
		faults = append(faults[:shown:shown], fmt.Sprintf("and %d more", n-shown))
	}
	p.that(len(faults) == 0, what, "%s", strings.Join(faults, "; "))
}

// invisible says why the rule cannot be seen here.
func (p *probe) invisible(why string) { p.finding.Why = why }

// inOrder goes over m by key, so that every report has the same order.
func inOrder[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}
