package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// TestProblemsDocument_hasEveryReason keeps the page that problems point at whole.
func TestProblemsDocument_hasEveryReason(t *testing.T) {
	text, err := os.ReadFile("../../docs/problems.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []instance.Reason
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllSubmatch(text, -1) {
		got = append(got, instance.Reason(m[1]))
	}
	slices.Sort(got)
	want := append(instance.Reasons(), instance.ReasonReady, instance.ReasonMaintenance)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	kinds := regexp.MustCompile("(?m)^### (\\w+)\nKind `(\\w+)`")
	for _, m := range kinds.FindAllSubmatch(text, -1) {
		if r := instance.Reason(m[1]); string(r.Kind()) != string(m[2]) {
			t.Errorf("%s: the page says %s, the table %s", r, m[2], r.Kind())
		}
	}
	if n := len(kinds.FindAll(text, -1)); n != len(instance.Reasons()) {
		t.Errorf("got %d reasons with their kind, want %d", n, len(instance.Reasons()))
	}
}

// TestDependenciesDocument_hasEveryDirectOne keeps the page in step with every go.mod.
func TestDependenciesDocument_hasEveryDirectOne(t *testing.T) {
	page, err := os.ReadFile("../../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range directDependencies(t) {
		if strings.HasPrefix(name, "gitea.home.hrajfrisbee.cz/kacerr/kvm2d/") {
			continue // our own
		}
		// The modules of one project may share a line: `go.opentelemetry.io/otel`, `…/sdk`.
		short := strings.Replace(name, "go.opentelemetry.io/otel/", "…/", 1)
		if !strings.Contains(string(page), "`"+name) && !strings.Contains(string(page), "`"+short+"`") {
			t.Errorf("%s has no line", name)
		}
	}
}

// directDependencies are the modules that a go.mod of the project requires by
// itself, and those of its tools.
func directDependencies(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, glob := range []string{"../../go.mod", "../../client/go.mod", "../../tools/go.mod", "../../tools/*/go.mod", "../../test/*/*/go.mod"} {
		found, err := filepath.Glob(glob)
		if err != nil || found == nil {
			t.Fatalf("no %s: %v", glob, err)
		}
		files = append(files, found...)
	}
	directRE := regexp.MustCompile(`(?m)^(?:require |\t)(\S+) v\S+$|^tool (\S+?)(?:/cmd/\S+)?$`)
	var names []string
	for _, file := range files {
		mod, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range directRE.FindAllStringSubmatch(string(mod), -1) {
			names = append(names, m[1]+m[2])
		}
	}
	return names
}

// TestAdvice_everyReasonOfHealth holds that check-host never leaves people alone.
func TestAdvice_everyReasonOfHealth(t *testing.T) {
	for _, r := range []instance.Reason{
		instance.ReasonUnreachable, instance.ReasonTimeout, instance.ReasonAuthenticationFailed, instance.ReasonHostKeyRejected,
		instance.ReasonCredentialsUnavailable, instance.ReasonLibvirtUnavailable, instance.ReasonLibvirtTooOld, instance.ReasonPoolNotFound,
		instance.ReasonPoolNotActive, instance.ReasonFirmwareMissing, instance.ReasonMisconfigured, instance.ReasonMaintenance,
		instance.ReasonNetworkNotFound, instance.ReasonNetworkNotActive,
	} {
		if advice[r] == "" {
			t.Errorf("no advice for %s", r)
		}
	}
}
