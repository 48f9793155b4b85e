package libvirtx

import (
	"context"
	"sync"

	libvirt "github.com/digitalocean/go-libvirt"
)

// maxHandles bounds a handleCache: names also come from what hosts tell us.
const maxHandles = 256

// handleCache remembers libvirt's handles by name, which saves the look-up's
// round trip. A handle holds a UUID, so one that outlived its object is
// answered with a number that says so, never with another object. The zero
// value is ready; it is safe for concurrent use.
type handleCache[T any] struct {
	mu     sync.Mutex
	byName map[string]T
}

// with runs fn with the handle of name. When libvirt answers gone to a
// remembered handle, it is looked up again and fn runs once more.
func (c *handleCache[T]) with(
	ctx context.Context,
	name string,
	lookup func(context.Context, string) (T, error),
	gone libvirt.ErrorNumber,
	fn func(T) error,
) error {
	if handle, ok := c.get(name); ok {
		err := fn(handle)
		if !answered(err, gone) {
			return err
		}
		c.forget(name)
	}
	handle, err := lookup(ctx, name)
	if err != nil {
		return err
	}
	c.put(name, handle)
	return fn(handle)
}

func (c *handleCache[T]) get(name string) (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	handle, ok := c.byName[name]
	return handle, ok
}

func (c *handleCache[T]) put(name string, handle T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byName == nil || len(c.byName) >= maxHandles {
		c.byName = make(map[string]T)
	}
	c.byName[name] = handle
}

func (c *handleCache[T]) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byName, name)
}
