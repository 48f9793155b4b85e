package instance

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// Guard runs step and turns a panic into an error of reason Internal. A
// goroutine that works for somebody runs its work through it, so that the work
// fails and not the process. The panic's value is not shown, since it may hold
// what a caller sent; who handles the error logs its PanicStack.
func Guard(step func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Error{
				Reason: ReasonInternal, Detail: fmt.Sprintf("panic of type %T", p), Err: &panicError{stack: string(debug.Stack())},
			}
		}
	}()
	return step()
}

// PanicStack returns the stack of the panic that err comes from, to the first
// who asks: several may wait for work that panicked, and one logs it.
func PanicStack(err error) (stack string, ok bool) {
	p, ok := errors.AsType[*panicError](err)
	if !ok || p.told.Swap(true) {
		return "", false
	}
	return p.stack, true
}

// panicError keeps the stack of a panic for the log; its text, which callers
// see, has none of it.
type panicError struct {
	stack string
	told  atomic.Bool
}

func (*panicError) Error() string { return "internal fault" }
