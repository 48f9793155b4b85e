package instance_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// TestGuard_panicIsAnErrorToldOnce: of those who wait for work that panicked,
// one logs the stack; nobody sees the value.
func TestGuard_panicIsAnErrorToldOnce(t *testing.T) {
	err := instance.Guard(func() error { panic("sentinel-of-a-panic") })
	if instance.ReasonOf(err) != instance.ReasonInternal || !errors.Is(err, instance.Transient) || strings.Contains(err.Error(), "sentinel") {
		t.Errorf("got %v, want Internal, Transient, and nothing of the value", err)
	}
	wrapped := fmt.Errorf("wait for it: %w", err)
	if stack, ok := instance.PanicStack(wrapped); !ok || !strings.Contains(stack, "TestGuard_panicIsAnErrorToldOnce") || strings.Contains(stack, "sentinel") {
		t.Errorf("got stack %v %q, want that of the panic", ok, stack)
	}
	if _, ok := instance.PanicStack(err); ok {
		t.Error("the stack was told twice")
	}
	own := errors.New("own")
	if err := instance.Guard(func() error { return own }); !errors.Is(err, own) {
		t.Errorf("got %v, want the step's own error", err)
	}
	if _, ok := instance.PanicStack(own); ok {
		t.Error("an error that is no panic has a stack")
	}
}
