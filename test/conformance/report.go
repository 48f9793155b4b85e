package conformance

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Verdict is what came out for a rule.
type Verdict string

// The verdicts.
const (
	Pass Verdict = "pass"
	Fail Verdict = "FAIL"
	// Blocked means that the rule could not be checked because something else,
	// a create for instance, does not work. It is no conformance either.
	Blocked Verdict = "BLOCKED"
	// NotVisible means that this installation gives no occasion to see the rule.
	NotVisible Verdict = "not visible here"
)

// Check is one thing that was looked at.
type Check struct {
	// What is the claim that was checked.
	What string
	// Fault is what was seen instead; "" when the claim held.
	Fault string
}

// Finding is what the suite says of one rule.
type Finding struct {
	// Rule is its number in the contract, or a word for a rule of the REST surface.
	Rule   string
	Title  string
	Checks []Check
	// Why says why the rule is not visible here, or what blocked it.
	Why     string
	blocked bool
}

// Verdict sums up the checks.
func (f Finding) Verdict() Verdict {
	switch {
	case slices.ContainsFunc(f.Checks, func(c Check) bool { return c.Fault != "" }):
		return Fail
	case f.blocked:
		return Blocked
	case len(f.Checks) == 0:
		return NotVisible
	default:
		return Pass
	}
}

// Report is the result of a run.
type Report struct {
	URL, Placement, Version string
	Took                    time.Duration
	// Findings has one entry per rule, in the order of the contract.
	Findings []Finding
	// Left names what could not be cleaned up, with the cause.
	Left []string
}

// unseen are the rules that nobody can see who only calls the API of a server
// that works; the project's other tests hold them. C8 is seen with S1, C9 with D4.
const unseen = "C2 C6 C7 E2 G2 H3 I4 I5 L3 S2 S3"

// With returns the findings with one of the verdicts, in the report's order.
func (r *Report) With(verdicts ...Verdict) []Finding {
	var found []Finding
	for _, f := range r.Findings {
		if slices.Contains(verdicts, f.Verdict()) {
			found = append(found, f)
		}
	}
	return found
}

// Conforms reports whether no rule failed, none was blocked, and nothing was left
// behind.
func (r *Report) Conforms() bool {
	return len(r.With(Fail, Blocked)) == 0 && len(r.Left) == 0
}

// order sorts the findings: the contract's sections by number, then the REST
// surface by word.
func (r *Report) order() {
	const sections = "ICGDLHES"
	rank := func(rule string) (section, number int) {
		number, err := strconv.Atoi(rule[1:])
		if err != nil {
			return len(sections), 0
		}
		return strings.IndexByte(sections, rule[0]), number
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		sectionA, numberA := rank(a.Rule)
		sectionB, numberB := rank(b.Rule)
		return cmp.Or(sectionA-sectionB, numberA-numberB, strings.Compare(a.Rule, b.Rule))
	})
}

// Write writes the report for people.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "conformance of %s (version %s, placement %s)\n\n", r.URL, r.Version, r.Placement)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-18s %-16s %s\n", f.Rule, f.Verdict(), f.Title)
		b.WriteString(f.String())
	}
	fmt.Fprintf(&b, "\n%d rules in %s: %d pass, %d fail, %d blocked, %d not visible here\n", len(r.Findings), r.Took.Round(100*time.Millisecond),
		len(r.With(Pass)), len(r.With(Fail)), len(r.With(Blocked)), len(r.With(NotVisible)))
	fmt.Fprintf(&b, "not visible from outside anywhere: %s\n", unseen)
	for _, left := range r.Left {
		fmt.Fprintf(&b, "LEFT BEHIND: %s\n", left)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// String lists the claims of f that held on one line, then what was seen instead
// of the others.
func (f Finding) String() string {
	const indent = "    "
	var b strings.Builder
	var held []string
	for _, c := range f.Checks {
		if c.Fault == "" {
			held = append(held, c.What)
		}
	}
	if held != nil {
		fmt.Fprintf(&b, "%schecked: %s\n", indent, strings.Join(held, "; "))
	}
	for _, c := range f.Checks {
		if c.Fault != "" {
			fmt.Fprintf(&b, "%snot so: %s: %s\n", indent, c.What, c.Fault)
		}
	}
	if f.Why != "" {
		fmt.Fprintf(&b, "%s%s\n", indent, f.Why)
	}
	return b.String()
}
