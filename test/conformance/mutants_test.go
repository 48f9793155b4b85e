package conformance

import (
	"slices"
	"sync"
	"testing"

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
	for _, group := range [][]mutant{catalogMutants(), listMutants(), createMutants(), readMutants(), deleteMutants(), errorMutants(), surfaceMutants()} {
		all = append(all, group...)
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
}

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

// examine runs the suite against target behind m.
func examine(t *testing.T, target, placement string, m mutant) *Report {
	t.Helper()
	report, err := Run(t.Context(), Settings{URL: startProxy(t, target, m).URL, Token: sesame, Placement: placement})
	if err != nil {
		t.Errorf("%s: %v", m.name, err)
		return new(Report)
	}
	return report
}
