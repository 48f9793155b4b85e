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

// onStop registers a clean-up. Its context ends with the grace; from then on it
// must not wait, and still leave nothing behind.
func (l *lifecycle) onStop(name string, run func(context.Context) error) {
	l.steps = append(l.steps, cleanup{name, run})
}

// stop runs the clean-ups, last registered first, all of them whatever fails,
// within grace together as long as they are graceful. The stack is empty after.
func (l *lifecycle) stop(ctx context.Context, grace time.Duration) error {
	// The daemon's own context has ended by now; its values go on.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	var errs []error
	for len(l.steps) > 0 {
		last := len(l.steps) - 1
		step := l.steps[last]
		l.steps = l.steps[:last]
		began := time.Now()
		err := step.run(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", step.name, err))
		}
		l.log.DebugContext(ctx, "stopped a part", "part", step.name, "duration_ms", time.Since(began).Milliseconds())
	}
	return errors.Join(errs...)
}

// hurry is what a clean-up gets that cannot do without: enough to remove from a
// host what was half done, or to send off what was collected.
const hurry = 3 * time.Second

// hurried gives a clean-up at least hurry, whatever those before it took.
func hurried(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		end := time.Now().Add(hurry)
		if grace, ok := ctx.Deadline(); ok && grace.After(end) {
			end = grace
		}
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
		defer cancel()
		return run(ctx)
	}
}
