package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestTryAll_everyFate mutates a package of its own, whose tests notice one
// mutant, hang with one, and cannot tell another from the sound code.
func TestTryAll_everyFate(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module p\n\ngo 1.26\n",
		"p.go": `package p

func count(n int) (steps int) {
	for i := 0; i != n; i++ {
		steps++
	}
	return steps
}

func name(s string) string { return "a" + s }

func larger(a, b int) int {
	if a > b {
		return a
	}
	return b
}
`,
		"p_test.go": `package p

import "testing"

func TestAll(t *testing.T) {
	if count(3) != 3 || name("b") != "ab" || larger(1, 2) != 2 || larger(2, 1) != 2 {
		t.Fatal()
	}
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := generate(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := newBench(t.Context(), dir, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b.limit = 2 * time.Second
	s := &sample{bench: b, queue: all, left: len(all), count: map[fate]int{}}
	if err := s.tryAll(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	// In the order of the code: != turned, i-- which never gets to n, steps--,
	// a minus between texts, and of a > b the moved bound and the turned.
	want := map[fate]int{killed: 3, timedOut: 1, unfit: 1, survived: 1}
	if diff := cmp.Diff(want, s.count); diff != "" {
		t.Errorf("fates (-want +got):\n%s", diff)
	}
}

func TestFirstFailed(t *testing.T) {
	for out, want := range map[string]string{
		"ok\n--- FAIL: TestA (0.01s)\n    --- FAIL: TestA/b (0.00s)\n": "TestA",
		"panic: nil map\n": "a crash, or what was left running",
	} {
		if got := firstFailed(out); got != want {
			t.Errorf("%q: got %q, want %q", out, got, want)
		}
	}
}
