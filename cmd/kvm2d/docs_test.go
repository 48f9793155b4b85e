package main

import (
	"os"
	"regexp"
	"slices"
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
