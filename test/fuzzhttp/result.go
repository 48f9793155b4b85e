package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"text/tabwriter"
)

// maxFailures ends a run: more of them say nothing new.
const maxFailures = 20

// result is what was counted and what was wrong. Its methods are safe for
// concurrent use.
type result struct {
	mu       sync.Mutex
	counts   map[string]map[int]int
	failures []string
}

func newResult() *result { return &result{counts: map[string]map[int]int{}} }

// count counts one answer; status 0 stands for none.
func (r *result) count(row string, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts[row] == nil {
		r.counts[row] = map[int]int{}
	}
	r.counts[row][status]++
}

// fail notes what is wrong with an exchange.
func (r *result) fail(exchange, fault string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.failures) < maxFailures {
		r.failures = append(r.failures, fault+"\n"+exchange)
	}
}

// full reports whether there is no use in going on.
func (r *result) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) >= maxFailures
}

func (r *result) err() error {
	if n := len(r.failures); n > 0 {
		return fmt.Errorf("%d failures", n)
	}
	return nil
}

// print writes the table of operation × status, and then the failures.
func (r *result) print(w io.Writer) {
	statuses := map[int]bool{}
	for _, row := range r.counts {
		for status := range row {
			statuses[status] = true
		}
	}
	columns := slices.SortedFunc(maps.Keys(statuses), func(a, b int) int { return cmp.Compare(a-1, b-1) })
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(row string, cell func(status int) string) {
		_, _ = fmt.Fprint(table, row, "\t")
		for _, status := range columns {
			_, _ = fmt.Fprint(table, cell(status), "\t")
		}
		_, _ = fmt.Fprintln(table)
	}
	line("operation", func(status int) string {
		if status == 0 {
			return "none"
		}
		return strconv.Itoa(status)
	})
	total := map[int]int{}
	for _, row := range sortedKeys(r.counts) {
		line(row, func(status int) string {
			n := r.counts[row][status]
			total[status] += n
			if n == 0 {
				return "."
			}
			return strconv.Itoa(n)
		})
	}
	line("total", func(status int) string { return strconv.Itoa(total[status]) })
	_ = table.Flush()
	for i, failure := range r.failures {
		_, _ = fmt.Fprintf(w, "\nfailure %d: %s\n", i+1, failure)
	}
}

// shown bounds what is printed of a message.
const shown = 1500

// describe shows an exchange.
func describe(r *request, a *answer) string {
	text := fmt.Sprintf("  sent %s", cut(r.bytes()))
	if a != nil {
		text += fmt.Sprintf("\n  got %d %v\n  %s", a.status, a.header, cut(a.body))
	}
	return text
}

func cut(b []byte) string {
	if len(b) <= shown {
		return strconv.Quote(string(b))
	}
	return fmt.Sprintf("%q… (%d bytes)", b[:shown], len(b))
}
