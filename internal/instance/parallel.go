package instance

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// sideBySide runs all steps at once and waits for every one of them. The first
// failure cancels the others and is returned. A step that panics fails with
// Internal instead of taking the process along; the panic's value is not shown
// because it may hold what a caller sent.
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

// guarded runs step and turns a panic into an error.
func guarded(ctx context.Context, step func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	return step(ctx)
}

// panicError keeps the stack of a panic for the log; its text, which callers see, has none of it.
type panicError struct {
	stack []byte
}

func (panicError) Error() string { return "internal fault" }

func panicked(p any) *Error {
	return &Error{Reason: ReasonInternal, Detail: fmt.Sprintf("panic of type %T", p), Err: panicError{debug.Stack()}}
}
