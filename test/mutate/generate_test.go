package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sampleSource = `package p

func f(a, b int, ok bool) int {
	if a < b && !ok {
		a++
		println(a)
	}
	a += 2
	return -a * b
}
`

func TestGenerate_everyKindOnce(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(sampleSource), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "p_test.go"), []byte("package p\n\nvar tested = 1 + 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := generate(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		got = append(got, m.String())
		content, err := m.apply()
		if err != nil {
			t.Fatal(err)
		}
		if want := len(sampleSource) - len(m.before) + len(m.by); len(content) != want {
			t.Errorf("%s: got %d bytes, want %d", m, len(content), want)
		}
	}
	want := []string{
		"p.go:4: && -> ||", "p.go:4: < -> <=", "p.go:4: < -> >=", "p.go:4: ! -> (nothing)", "p.go:5: ++ -> --",
		"p.go:6: println(a) -> (nothing)", "p.go:8: += -> -=", "p.go:9: * -> /", "p.go:9: - -> (nothing)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mutants (-want +got):\n%s", diff)
	}
}
