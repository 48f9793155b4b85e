//go:build faults

// Package faults_test breaks the way to a real libvirt host in every way we
// know, and measures how long callers wait for an answer, of what kind it is,
// how long it takes until calls succeed again, and what is left behind. Run it
// with test/faults/run, which makes the hosts.
package faults_test

import (
	"fmt"
	"os"
	"testing"
	"text/tabwriter"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	code := m.Run()
	printTable(results)
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// result is a row of the table.
type result struct {
	fault          string
	kind, reason   string
	answered       time.Duration
	healed         time.Duration
	goroutines     [2]int
	connections    [2]int
	bystanderCalls int
	bystanderMax   time.Duration
	failed         bool
}

// results are the rows so far; the tests run one after the other.
var results []*result

func printTable(rows []*result) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(out, "\nfault\tkind\treason\tanswered\thealed\tgoroutines\tsshd conns\tother host\t")
	for _, r := range rows {
		verdict := "ok"
		if r.failed {
			verdict = "FAILED"
		}
		_, _ = fmt.Fprintf(out, "%s\t%s\t%s\t%.1f s\t%.1f s\t%d, %d\t%d, %d\t%d calls, max %d ms\t%s\n",
			r.fault, r.kind, r.reason, r.answered.Seconds(), r.healed.Seconds(), r.goroutines[0], r.goroutines[1],
			r.connections[0], r.connections[1], r.bystanderCalls, r.bystanderMax.Milliseconds(), verdict)
	}
	_ = out.Flush()
}
