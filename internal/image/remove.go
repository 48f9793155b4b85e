package image

import (
	"context"
	"errors"
	"fmt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// Remove implements instance.Images. The marker goes first, so that no create
// that begins now takes the base; then the overlays are counted, for the host
// itself would let a base be deleted under running machines; then the base goes,
// or the marker comes back. A create whose overlay came too late for the count
// finds the marker gone when it confirms.
func (c *Cache) Remove(ctx context.Context, host string, img instance.Image, identity string) error {
	pool, err := c.pool(host)
	if err != nil {
		return err
	}
	k := keyOf(host, img)
	if identity != "" {
		if !isHex(identity, identityHex) {
			return &instance.Error{
				Reason: instance.ReasonInvalidRequest, Op: "remove image " + img.Name, Host: host,
				Detail: fmt.Sprintf("an identity is %d lower-case hex digits", identityHex),
			}
		}
		k.identity = identity
	}
	defer c.watch(ctx, host, pool, true)
	select {
	case c.removing <- struct{}{}:
		defer func() { <-c.removing }()
	case <-ctx.Done():
		return ended(ctx, "remove image "+k.image, host)
	}
	if err := c.land(ctx, k); err != nil {
		return err
	}
	return onHost(c.remove(ctx, pool, k), host)
}

func (c *Cache) remove(ctx context.Context, pool Pool, k key) error {
	base, state, err := find(ctx, pool, k, "")
	if err != nil {
		return err
	}
	c.forget(k)
	if state == unmarked {
		return c.removeUnmarked(ctx, pool, k)
	}
	if err := pool.DeleteVolume(ctx, k.marker()); err != nil {
		return err
	}
	if state == stale {
		return c.removeUnmarked(ctx, pool, k)
	}
	overlays, err := countOverlays(ctx, pool, base.Path)
	if err != nil || overlays > 0 {
		return c.putBack(ctx, pool, k, base, overlays, err)
	}
	// Another daemon that saw an overlay we did not has marked it again by now.
	_, state, err = find(ctx, pool, k, base.Volume)
	if err != nil || state == marked {
		return c.putBack(ctx, pool, k, base, overlays, err)
	}
	return pool.DeleteVolume(ctx, base.Volume)
}

// removeUnmarked looks after what a removal left that died between its steps. A
// base in use gets its marker back; any other unmarked base may be somebody's
// download under way and is left to the sweep.
func (c *Cache) removeUnmarked(ctx context.Context, pool Pool, k key) error {
	base, used, err := inUse(ctx, pool, k)
	if err != nil || !used {
		return err
	}
	overlays, err := countOverlays(ctx, pool, base.Path)
	if err != nil {
		return err
	}
	return c.putBack(ctx, pool, k, base, overlays, nil)
}

// putBack restores the marker of a base that stays and returns why it stays. It
// is done even when the caller has left: without it the image would be fetched anew.
func (c *Cache) putBack(ctx context.Context, pool Pool, k key, base instance.Base, overlays int, cause error) error {
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	if _, _, err := mark(undo, undo, pool, k, base); err != nil {
		return errors.Join(cause, err)
	}
	if cause != nil {
		return cause
	}
	return &instance.Error{
		Reason: instance.ReasonImageInUse, Op: "remove image " + k.image, Host: k.host,
		Detail: fmt.Sprintf("%d overlays are built on %s", overlays, base.Volume),
	}
}

func countOverlays(ctx context.Context, pool Pool, path string) (int, error) {
	all, err := listVolumes(ctx, pool, "")
	if err != nil {
		return 0, err
	}
	return overlaysOf(all)[path], nil
}

// forget drops what is remembered of a content.
func (c *Cache) forget(k key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, k)
	delete(c.failures, k)
}
