package instance_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func TestCreate_tellsItsSteps(t *testing.T) {
	w := newWorld(t)
	var got []string
	w.opts.CreateStep = func(host string, step instance.CreateStep, took time.Duration, err error) {
		if took < 0 {
			t.Errorf("%s took %v", step, took)
		}
		got = append(got, fmt.Sprintf("%s %s %v", host, step, err == nil))
	}
	w.restart(t)
	wantSteps := func(what string, want []string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		got = nil
	}

	w.mustCreate(t, spec("proxy-1"))
	wantSteps("a create", []string{"alpha image true", "alpha volumes true", "alpha define true", "alpha start true"})
	w.mustCreate(t, spec("proxy-1"))
	wantSteps("a repeat", nil)

	w.setHook(func(_ context.Context, call string) (before, after error) {
		if strings.HasPrefix(call, "Start") {
			before = &instance.Error{Reason: instance.ReasonStartFailed, Host: "alpha"}
		}
		return before, nil
	})
	if _, err := w.Create(t.Context(), spec("proxy-2"), patience); err == nil {
		t.Fatal("a create whose start fails: got no error")
	}
	wantSteps("a create whose start fails", []string{"alpha image true", "alpha volumes true", "alpha define true", "alpha start false"})
}
