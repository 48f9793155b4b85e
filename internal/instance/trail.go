package instance

import (
	"context"
	"slices"
	"sync"
)

// Trail collects, along one request, what its one log line will tell: the step
// it was at and warnings. The HTTP layer puts one into the context and logs it;
// detached work keeps one of its own and hands it to those who wait.
type Trail struct {
	mu       sync.Mutex
	step     string
	warnings []string
}

type trailKey struct{}

// WithTrail returns a context that carries a fresh Trail.
func WithTrail(ctx context.Context) (context.Context, *Trail) {
	t := &Trail{}
	return context.WithValue(ctx, trailKey{}, t), t
}

// TrailFrom returns the context's Trail; without one, a Trail that nobody reads.
func TrailFrom(ctx context.Context) *Trail {
	if t, ok := ctx.Value(trailKey{}).(*Trail); ok {
		return t
	}
	return &Trail{}
}

// Step notes what is being done now.
func (t *Trail) Step(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.step = s
}

// Warn adds a warning.
func (t *Trail) Warn(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.warnings = append(t.warnings, s)
}

// Read returns the last step and all warnings.
func (t *Trail) Read() (step string, warnings []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.step, slices.Clone(t.warnings)
}

// Add takes over another trail's step and warnings.
func (t *Trail) Add(other *Trail) {
	step, warnings := other.Read()
	t.mu.Lock()
	defer t.mu.Unlock()
	if step != "" {
		t.step = step
	}
	t.warnings = append(t.warnings, warnings...)
}
