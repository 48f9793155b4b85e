package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGenerate_isWhatIsCommitted(t *testing.T) {
	got, err := generate("../config.go")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../comments.gen.go")
	if err != nil {
		t.Fatal(err)
	}
	// gofmt aligns the values of the committed file.
	if diff := cmp.Diff(strings.Fields(string(want)), strings.Fields(string(got))); diff != "" {
		t.Errorf("comments.gen.go is out of date, run make generate (-committed +now):\n%s", diff)
	}
}
