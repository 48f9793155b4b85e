package instance

import (
	"context"
	"log/slog"
	"sync"
)

// sideBySide runs all steps at once and waits for every one of them. The first
// failure cancels the others and is returned. A step that panics fails with
// Internal instead of taking the process along.
func sideBySide(ctx context.Context, steps ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg    sync.WaitGroup
		once  sync.Once
		first error
	)
	for _, step := range steps {
		wg.Go(func() {
			if err := guarded(ctx, step); err != nil {
				once.Do(func() {
					first = err
					cancel()
				})
			}
		})
	}
	wg.Wait()
	return first
}

// guarded is Guard for a step with a context.
func guarded(ctx context.Context, step func(context.Context) error) error {
	return Guard(func() error { return step(ctx) })
}

// tellPanic logs the panic that err comes from, for errors that end here.
func (s *Service) tellPanic(ctx context.Context, err error) {
	if stack, ok := PanicStack(err); ok {
		s.log.ErrorContext(ctx, "panic", slog.Any("error", err), slog.String("stack", stack))
	}
}
