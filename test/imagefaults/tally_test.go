//go:build lab

package imagefaults_test

import (
	"cmp"
	"slices"
	"sync"
	"testing"
)

// tally counts what happened.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *tally) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[name]++
}

// report prints how often each of names happened; never is a failure.
func (c *tally) report(t *testing.T, names []string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(c.counts[b], c.counts[a]) })
	t.Log("how often each fault really hit:")
	for _, name := range names {
		t.Logf("%6d  %s", c.counts[name], name)
		if c.counts[name] == 0 {
			t.Errorf("%s never hit", name)
		}
	}
}
