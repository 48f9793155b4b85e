package image

import (
	"context"
	"fmt"
	"sync"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const (
	// seedRoom is what a machine takes beside its disk: the seed, the console log.
	seedRoom = 16 << 20

	// settleTime is how long an unmarked base in use must stay so before it is
	// marked again: a Remove that is between its steps is through by then.
	settleTime = 2 * time.Second
)

// Ensure implements instance.Images.
func (c *Cache) Ensure(ctx context.Context, host string, img instance.Image, diskBytes int64) (instance.Base, error) {
	pool, err := c.pool(host)
	if err != nil {
		return instance.Base{}, err
	}
	k := keyOf(host, img)
	defer c.watch(ctx, host, pool, false)
	base, ready, err := c.cached(ctx, pool, k, diskBytes)
	if err == nil || ready {
		c.metrics.asks(k, ready)
	}
	if err != nil || ready {
		return base, err
	}
	base, ready, err = c.restore(ctx, pool, k)
	if err != nil {
		return instance.Base{}, err
	}
	if ready {
		return base, c.admit(ctx, pool, k, base.VirtualBytes, 0, diskBytes)
	}
	f, err := c.obtain(ctx, pool, k, img, 1, func(virtualBytes, imageBytes int64) error {
		return c.admit(ctx, pool, k, virtualBytes, imageBytes, diskBytes)
	})
	if err != nil {
		return instance.Base{}, err
	}
	base, err = c.wait(ctx, f)
	if err != nil {
		return instance.Base{}, err
	}
	return base, checkDisk(k, base.VirtualBytes, diskBytes)
}

// cached answers from the marker, with the room for the disk checked. What is
// remembered lets all questions be asked at once; the host's answers decide.
func (c *Cache) cached(ctx context.Context, pool Pool, k key, diskBytes int64) (instance.Base, bool, error) {
	hint, hinted := c.remembered(k)
	var (
		room    error
		aside   sync.WaitGroup
		guessed = hinted && checkDisk(k, hint.VirtualBytes, diskBytes) == nil
	)
	if guessed {
		aside.Go(func() {
			room = instance.Guard(func() error { return checkRoom(ctx, pool, diskOr(diskBytes, hint.VirtualBytes)) })
		})
	}
	base, state, err := find(ctx, pool, k, hint.Volume)
	aside.Wait()
	if err != nil {
		return instance.Base{}, false, err
	}
	c.remember(k, base, state == marked)
	if state != marked {
		return instance.Base{}, false, nil
	}
	if guessed && base == hint {
		return base, true, room
	}
	return base, true, c.admit(ctx, pool, k, base.VirtualBytes, 0, diskBytes)
}

// admit holds one caller's wishes against an image and a pool, before anything
// is made. virtualBytes 0 is not known yet; imageBytes is what the image itself
// will still take.
func (c *Cache) admit(ctx context.Context, pool Pool, k key, virtualBytes, imageBytes, diskBytes int64) error {
	if err := checkDisk(k, virtualBytes, diskBytes); err != nil {
		return err
	}
	return checkRoom(ctx, pool, imageBytes+diskOr(diskBytes, virtualBytes))
}

// checkRoom asks for room for bytes and a seed.
func checkRoom(ctx context.Context, pool Pool, bytes int64) error {
	_, err := pool.CheckSpace(ctx, bytes+seedRoom)
	return err
}

// diskOr is the disk's size: as large as the image when not given.
func diskOr(diskBytes, virtualBytes int64) int64 {
	if diskBytes == 0 {
		return virtualBytes
	}
	return diskBytes
}

// checkDisk refuses a disk that the image does not fit into.
func checkDisk(k key, virtualBytes, diskBytes int64) error {
	if diskBytes == 0 || diskBytes >= virtualBytes {
		return nil
	}
	return &instance.Error{
		Reason: instance.ReasonDiskTooSmall, Op: "check image " + k.image, Host: k.host,
		Detail: fmt.Sprintf("the disk of %d bytes is smaller than the image's %d", diskBytes, virtualBytes),
	}
}

// restore puts the marker of a base back that machines are built on: a removal
// that died between its steps leaves such a base. It was marked once, or nothing
// would be built on it, so it is whole.
func (c *Cache) restore(ctx context.Context, pool Pool, k key) (instance.Base, bool, error) {
	if c.flight(k) != nil {
		return instance.Base{}, false, nil
	}
	if _, ok, err := inUse(ctx, pool, k); err != nil || !ok {
		return instance.Base{}, false, err
	}
	select {
	case <-time.After(settleTime):
	case <-ctx.Done():
		return instance.Base{}, false, ended(ctx, "ensure image "+k.image, k.host)
	}
	base, ok, err := inUse(ctx, pool, k)
	if err != nil || !ok {
		return instance.Base{}, false, err
	}
	base, _, err = mark(ctx, ctx, pool, k, base)
	if err != nil {
		return instance.Base{}, false, err
	}
	c.remember(k, base, true)
	return base, true, nil
}

// inUse finds a base of this content that a machine is built on.
func inUse(ctx context.Context, pool Pool, k key) (instance.Base, bool, error) {
	bases, err := listVolumes(ctx, pool, k.prefix())
	if err != nil || len(bases) == 0 {
		return instance.Base{}, false, err
	}
	all, err := listVolumes(ctx, pool, "")
	if err != nil {
		return instance.Base{}, false, err
	}
	overlays := overlaysOf(all)
	for _, v := range bases {
		if n, ok := parseName(v.Name); ok && !n.isMarker() && overlays[v.Path] > 0 {
			return baseOf(k, v, n.format), true, nil
		}
	}
	return instance.Base{}, false, nil
}

// obtain returns the running download of this content, one that it starts if
// there is none, after admit has agreed to its facts. waiting is as for join.
func (c *Cache) obtain(ctx context.Context, pool Pool, k key, img instance.Image, waiting int,
	admit func(virtualBytes, imageBytes int64) error,
) (*flight, error) {
	if f := c.flight(k); f != nil {
		// What has been written is gone from the free space already.
		if err := admit(f.facts.virtualBytes, f.leftBytes()); err != nil {
			return nil, err
		}
		return c.join(ctx, pool, k, img, f.facts, waiting)
	}
	known, err := c.probe(ctx, img)
	if err != nil {
		err = onHost(err, k.host)
		if ctx.Err() == nil {
			c.failed(k, err)
		}
		return nil, err
	}
	if err := admit(known.virtualBytes, known.poolBytes); err != nil {
		return nil, err
	}
	return c.join(ctx, pool, k, img, known, waiting)
}

// probe is one look at a source's head, shared by those who ask meanwhile.
type probe struct {
	done  chan struct{}
	facts facts
	err   error
}

// probe asks a source for its head. The request is nobody's in particular: it
// ends by the stall limit at the latest.
func (c *Cache) probe(ctx context.Context, img instance.Image) (facts, error) {
	id := identityOf(img) + "." + img.Format
	c.mu.Lock()
	p, shared := c.probes[id]
	if !shared {
		p = &probe{done: make(chan struct{})}
		_, ok := c.crew.start(ctx, func(ctx, _ context.Context) {
			p.err = instance.Guard(func() (err error) {
				p.facts, err = c.source.probe(ctx, img)
				return err
			})
			c.mu.Lock()
			delete(c.probes, id)
			c.mu.Unlock()
			close(p.done)
		})
		if !ok {
			c.mu.Unlock()
			return facts{}, errShuttingDown(downloadOp(img), "")
		}
		c.probes[id] = p
	}
	c.mu.Unlock()
	select {
	case <-p.done:
		return p.facts, p.err
	case <-ctx.Done():
		return facts{}, ended(ctx, downloadOp(img), "")
	}
}

// probe learns the facts of img from the first bytes, with one request.
func (s *source) probe(ctx context.Context, img instance.Image) (facts, error) {
	once := *s
	once.resumes = 0
	c, err := once.open(ctx, img, newProgress(0), 0)
	if err != nil {
		return facts{}, err
	}
	defer c.close()
	return c.facts, nil
}

// failed remembers why a content could not be had, for Status.
func (c *Cache) failed(k key, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures[k] = err
}
