package libvirtx_test

import (
	"sync"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

// TestCheck_neverUsesPooledConnection warms every session that is kept, and
// breaks them: a health check must neither notice nor touch one (H1).
func TestCheck_neverUsesPooledConnection(t *testing.T) {
	h, s := newHost(t, sim.Options{})
	var mu sync.Mutex
	pooled, checks := map[int]string{}, map[int]string{}
	checking := false
	s.OnCall(func(c sim.Call) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case c.Conn == 0:
		case checking:
			checks[c.Conn] = c.Method
		default:
			pooled[c.Conn] = c.Method
		}
		if _, warm := pooled[c.Conn]; warm && checking {
			return libvirt.Error{Code: uint32(libvirt.ErrInternalError), Message: "a broken session"}
		}
		return nil
	})
	if _, err := h.CheckSpace(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := h.FindWithAddresses(t.Context(), "absent"); instance.ReasonOf(err) != instance.ReasonInstanceNotFound {
		t.Fatal(err)
	}
	if len(pooled) == 0 {
		t.Fatal("no session is warm")
	}
	mu.Lock()
	checking = true
	mu.Unlock()
	before := s.Connects()
	const runs = 3
	for range runs {
		if got := h.Check(t.Context()); !got.Ready {
			t.Errorf("got %s (%s), want Ready", got.Reason, got.Message)
		}
	}
	if got := s.Connects() - before; got != runs {
		t.Errorf("got %d dials for %d checks, want one each", got, runs)
	}
	for conn, method := range checks {
		if _, warm := pooled[conn]; warm {
			t.Errorf("a check made %s on connection %d, which is pooled", method, conn)
		}
	}
}
