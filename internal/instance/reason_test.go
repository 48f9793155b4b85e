package instance_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// TestReasons_tableIsComplete: every Reason that is declared has a kind, those
// that only health entries carry excepted.
func TestReasons_tableIsComplete(t *testing.T) {
	source, err := os.ReadFile("reason.go")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	known := instance.Reasons()
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		literal, ok := v.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		declared++
		r := instance.Reason(strings.Trim(literal.Value, `"`))
		if want := "Reason" + string(r); v.Names[0].Name != want {
			t.Errorf("constant %s holds %s, want the name %s", v.Names[0].Name, r, want)
		}
		healthOnly := r == instance.ReasonReady || r == instance.ReasonMaintenance
		if slices.Contains(known, r) == healthOnly {
			t.Errorf("reason %s: in the table of kinds is %v", r, !healthOnly)
		}
		return true
	})
	if declared != len(known)+2 {
		t.Errorf("got %d reasons declared and %d with a kind, want two fewer", declared, len(known))
	}
	for _, r := range known {
		switch r.Kind() {
		case instance.NotFound, instance.Permanent, instance.Transient, instance.QuotaExceeded:
		default:
			t.Errorf("reason %s has kind %q", r, r.Kind())
		}
	}
}

func TestReasonOf(t *testing.T) {
	plain := &instance.Error{Reason: instance.ReasonPoolFull, Op: "check space", Host: "h"}
	for _, tt := range []struct {
		err    error
		reason instance.Reason
		kind   instance.Kind
	}{
		{plain, instance.ReasonPoolFull, instance.QuotaExceeded},
		{fmt.Errorf("around: %w", plain), instance.ReasonPoolFull, instance.QuotaExceeded},
		{context.DeadlineExceeded, instance.ReasonTimeout, instance.Transient},
		{fmt.Errorf("around: %w", context.Canceled), instance.ReasonCancelled, instance.Transient},
		{errors.New("who knows"), instance.ReasonInternal, instance.Transient},
		{instance.Errorf("Unheard", "of"), "Unheard", instance.Transient},
	} {
		if got := instance.ReasonOf(tt.err); got != tt.reason {
			t.Errorf("ReasonOf(%v) = %s, want %s", tt.err, got, tt.reason)
		}
		if got := instance.ReasonOf(tt.err).Kind(); got != tt.kind {
			t.Errorf("kind of %v is %s, want %s", tt.err, got, tt.kind)
		}
	}
	if !errors.Is(fmt.Errorf("around: %w", plain), instance.QuotaExceeded) || errors.Is(plain, instance.Transient) {
		t.Error("an error is not of its own kind alone")
	}
}

func TestError_text(t *testing.T) {
	cause := errors.New("no")
	for _, tt := range []struct {
		err  instance.Error
		want string
	}{
		{instance.Error{Op: "define domain", Instance: "vm", Host: "h", Err: cause}, "define domain vm on h: no"},
		{instance.Error{Op: "check host", Host: "h", Detail: "pool p", Err: cause}, "check host on h: pool p: no"},
		{instance.Error{Detail: "only this"}, "only this"},
		{instance.Error{Reason: instance.ReasonTimeout}, "Timeout"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
