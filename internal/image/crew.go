package image

import (
	"context"
	"sync"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// crew owns the goroutines that outlive the call that started them, and is
// what waits for them.
type crew struct {
	mu     sync.Mutex
	closed bool
	next   int
	tasks  map[int]task
	wg     sync.WaitGroup
}

// task is one goroutine's two ends: stop ends its work, abandon its clean-up too.
type task struct {
	stop    context.CancelCauseFunc
	abandon context.CancelFunc
}

// start runs work in a goroutine of the crew, detached from parent but for its
// values, the trace among them; it has a Trail of its own. work ends when stop is called or the crew closes; then undo still
// lives, for removing what the work left. False after close: nothing was started.
func (c *crew) start(parent context.Context, work func(ctx, undo context.Context)) (stop context.CancelCauseFunc, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false
	}
	detached, _ := instance.WithTrail(context.WithoutCancel(parent))
	undo, abandon := context.WithCancel(detached)
	ctx, stop := context.WithCancelCause(undo)
	if c.tasks == nil {
		c.tasks = map[int]task{}
	}
	id := c.next
	c.next++
	c.tasks[id] = task{stop: stop, abandon: abandon}
	c.wg.Go(func() {
		defer c.forget(id)
		work(ctx, undo)
	})
	return stop, true
}

// forget frees what belonged to a task that ended.
func (c *crew) forget(id int) {
	c.mu.Lock()
	t := c.tasks[id]
	delete(c.tasks, id)
	c.mu.Unlock()
	t.stop(nil)
	t.abandon()
}

// close stops every task with cause, lets them clean up until ctx ends, cuts
// that short then, and returns once all goroutines are gone.
func (c *crew) close(ctx context.Context, cause error) error {
	c.mu.Lock()
	c.closed = true
	for _, t := range c.tasks {
		t.stop(cause)
	}
	c.mu.Unlock()
	cut := context.AfterFunc(ctx, c.abandonAll)
	c.wg.Wait()
	if cut() {
		return nil
	}
	return ctx.Err()
}

func (c *crew) abandonAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.tasks {
		t.abandon()
	}
}
