package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// lifecycle is the stack of what must be undone. Each thing registers its
// clean-up the moment it exists, so that a start that fails halfway and a
// normal end undo exactly what was done, in reverse.
type lifecycle struct {
	log   *slog.Logger
	steps []cleanup
}

type cleanup struct {
	name string
	run  func(context.Context) error
}

// within runs the clean-up on a context of its own: the daemon's has ended by now.
func (c cleanup) within(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return c.run(ctx)
}

// onStop registers a clean-up. When its context has ended it must hurry, and
// still leave nothing behind.
func (l *lifecycle) onStop(name string, run func(context.Context) error) {
	l.steps = append(l.steps, cleanup{name, run})
}

// hurry is what a clean-up gets when those before it used the grace up: enough
// to remove from a host what was half done.
const hurry = 3 * time.Second

// stop runs the clean-ups, last registered first, all of them whatever fails.
// Together they get grace, and each at least hurry. The stack is empty after.
func (l *lifecycle) stop(ctx context.Context, grace time.Duration) error {
	end := time.Now().Add(grace)
	var errs []error
	for len(l.steps) > 0 {
		last := len(l.steps) - 1
		step := l.steps[last]
		l.steps = l.steps[:last]
		began := time.Now()
		err := step.within(ctx, max(time.Until(end), hurry))
		if err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", step.name, err))
		}
		l.log.DebugContext(ctx, "stopped a part", "part", step.name, "duration_ms", time.Since(began).Milliseconds())
	}
	return errors.Join(errs...)
}
