package conformance

import (
	"context"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Through a proxy that lets everything pass all rules are visible and hold.
func TestSuite_honestProxy(t *testing.T) {
	report := examine(t, startSimulator(t), "", mutant{})
	for _, f := range report.With(Fail, Blocked, NotVisible) {
		t.Errorf("%s: %s\n%s", f.Rule, f.Verdict(), f)
	}
	if !report.Conforms() {
		t.Errorf("it does not conform; left behind: %v", report.Left)
	}
}

// Each rule turns red against a server that breaks it, and no other does.
func TestSuite_mutants(t *testing.T) {
	var all []mutant
	for _, group := range []func() []mutant{
		identityMutants, createMutants, guardMutants, patienceMutants, stateMutants, addressMutants, factMutants,
		deleteMutants, deleteGuardMutants, listMutants, filterMutants, healthMutants, wrongBodyMutants, wrongRequestMutants,
		problemMutants, secretMutants, catalogMutants, resourceMutants, surfaceMutants,
	} {
		all = append(all, group()...)
	}
	reports := examineAll(t, all)
	broken := map[string]bool{}
	for i, m := range all {
		broken[m.red] = true
		t.Run(m.red+" "+m.name, func(t *testing.T) {
			var red []string
			for _, f := range reports[i].With(Fail, Blocked) {
				red = append(red, f.Rule)
			}
			if diff := cmp.Diff([]string{m.red}, red); diff != "" {
				t.Errorf("red rules (-want +got):\n%s\n%s", diff, reports[i].With(Fail, Blocked))
			}
			if len(reports[i].Left) > 0 {
				t.Errorf("left behind: %v", reports[i].Left)
			}
		})
	}
	for _, r := range rules() {
		if !broken[r.id] {
			t.Errorf("no mutant breaks %s", r.id)
		}
	}
	for claim, red := range claims(reports) {
		if !red {
			t.Errorf("no mutant breaks a claim of %s", claim)
		}
	}
}

// claims returns every claim that was checked, without its numbers, and whether
// it was ever found broken: a claim that cannot turn red is worth nothing.
func claims(reports []*Report) map[string]bool {
	red := map[string]bool{}
	for _, r := range reports {
		for _, f := range r.Findings {
			for _, c := range f.Checks {
				claim := f.Rule + ": " + numbersRE.ReplaceAllString(c.What, "N")
				red[claim] = red[claim] || c.Fault != ""
			}
		}
	}
	return red
}

var numbersRE = regexp.MustCompile(`[0-9]+`)

// examineAll runs the suite against each mutant. They mostly wait for guests, so
// several are examined at once, each in front of a simulator of its own. Runs in
// front of one take turns on its hosts: what one run was granted of a pool is free
// again a few seconds later.
func examineAll(t *testing.T, all []mutant) []*Report {
	t.Helper()
	const atOnce = 10
	reports := make([]*Report, len(all))
	next := make(chan int)
	var wg sync.WaitGroup
	for range atOnce {
		target := startSimulator(t)
		wg.Go(func() {
			hosts := []string{"sim-1", "sim-2"}
			for i := range next {
				reports[i] = examine(t, target, hosts[0], all[i])
				slices.Reverse(hosts)
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	wg.Wait()
	return reports
}

// inTime is the test's context, which ends early enough before the test's deadline
// that simulators are stopped: a test that is out of time stops nothing.
func inTime(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	const cleanUp = 90 * time.Second
	if deadline, ok := t.Deadline(); ok {
		return context.WithDeadline(t.Context(), deadline.Add(-cleanUp))
	}
	return context.WithCancel(t.Context())
}

// examine runs the suite against target behind m.
func examine(t *testing.T, target, placement string, m mutant) *Report {
	t.Helper()
	ctx, cancel := inTime(t)
	defer cancel()
	report, err := Run(ctx, Settings{
		URL: startProxy(t, target, m).URL, Token: sesame, Placement: placement,
		BootTimeout: 20 * time.Second, CallTimeout: 10 * time.Second,
	})
	if err != nil {
		t.Errorf("%s: %v", m.name, err)
		return new(Report)
	}
	return report
}
