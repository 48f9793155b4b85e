package image

import (
	"context"
	"log/slog"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const (
	// stillLooks is how many looks in a row, a stall limit apart, must find a
	// partial unmoved before it counts as dead.
	stillLooks = 2

	// maxFailedLooks ends a sweep of a pool that cannot be read; the next contact starts another.
	maxFailedLooks = 3
)

// sweep is the search for dead partials in one pool: base volumes without a
// marker that nothing is built on. A live one moves, whoever writes it, for its
// writer gives up within the stall limit; only the host's own figures are compared.
type sweep struct {
	// running is true while a goroutine looks; done once one has found nothing
	// left to watch. Guarded by Cache.mu.
	running bool
	done    bool
}

// sighting is a partial as it was seen last.
type sighting struct {
	bytes    int64
	modified time.Time
	at       time.Time
	still    int
}

// watch starts a sweep of the pool unless one is under way. Without again it
// does so only at the first contact.
func (c *Cache) watch(ctx context.Context, host string, pool Pool, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.sweeps[host]
	if !ok {
		s = &sweep{}
		c.sweeps[host] = s
	}
	if s.running || (s.done && !again) {
		return
	}
	_, s.running = c.crew.start(ctx, func(ctx, _ context.Context) {
		var clean bool
		err := instance.Guard(func() error {
			clean = c.sweepUntilClean(ctx, host, pool)
			return nil
		})
		if stack, ok := instance.PanicStack(err); ok {
			c.log.ErrorContext(ctx, "search for dead partials ended", "host", host, "error", err, "stack", stack)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		s.running, s.done = false, clean
	})
}

// sweepUntilClean looks, a stall limit apart, until no partial is left. False
// when it had to give up.
func (c *Cache) sweepUntilClean(ctx context.Context, host string, pool Pool) bool {
	seen := map[string]sighting{}
	for failures := 0; failures < maxFailedLooks; {
		left, err := c.look(ctx, host, pool, seen)
		switch {
		case err != nil:
			failures++
		case left == 0:
			return true
		default:
			failures = 0
		}
		timer := time.NewTimer(c.stall)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
	return false
}

// look compares the partials with how they were seen before, removes the dead
// ones and returns how many are left.
func (c *Cache) look(ctx context.Context, host string, pool Pool, seen map[string]sighting) (left int, err error) {
	bases, err := listVolumes(ctx, pool, basePrefix)
	if err != nil {
		return 0, err
	}
	partials := c.partials(host, bases)
	for name := range seen {
		if _, ok := partials[name]; !ok {
			delete(seen, name)
		}
	}
	var dead []string
	now := time.Now()
	for name, v := range partials {
		seen[name] = seen[name].next(v, now, c.stall)
		if seen[name].still >= stillLooks {
			dead = append(dead, name)
		}
	}
	if len(dead) == 0 {
		return len(partials), nil
	}
	removed, err := c.bury(ctx, host, pool, dead, seen)
	return len(partials) - removed, err
}

// next takes one more look into account.
func (s sighting) next(v instance.Volume, now time.Time, stall time.Duration) sighting {
	bytes := max(v.PhysicalBytes, v.AllocationBytes)
	if s.at.IsZero() || s.bytes != bytes || !s.modified.Equal(v.ModifiedAt) {
		return sighting{bytes: bytes, modified: v.ModifiedAt, at: now}
	}
	if now.Sub(s.at) >= stall {
		s.at = now
		s.still++
	}
	return s
}

// partials are the unmarked bases that this Cache is not writing itself.
func (c *Cache) partials(host string, bases []instance.Volume) map[string]instance.Volume {
	marked := markedPaths(bases)
	found := map[string]instance.Volume{}
	for _, v := range bases {
		if n, ok := parseName(v.Name); ok && !n.isMarker() && !marked[v.Path] {
			found[v.Name] = v
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, f := range c.flights {
		if k.host == host {
			delete(found, f.volume)
		}
	}
	return found
}

// remark gives a base in use its marker back, which a removal that died between
// its steps has taken. When its content has another base by now, that one stays.
func remark(ctx context.Context, pool Pool, host string, v instance.Volume) error {
	n, _ := parseName(v.Name)
	k := key{host: host, image: n.image, identity: n.identity}
	_, _, err := mark(ctx, ctx, pool, k, baseOf(k, v, n.format))
	return err
}

// bury removes those of the dead that nothing is built on, by a fresh listing of
// the whole pool: a base in use is never a partial, whatever became of its marker.
func (c *Cache) bury(ctx context.Context, host string, pool Pool, dead []string, seen map[string]sighting) (gone int, err error) {
	all, err := listVolumes(ctx, pool, "")
	if err != nil {
		return 0, err
	}
	partials, overlays := c.partials(host, all), overlaysOf(all)
	for _, name := range dead {
		v, still := partials[name]
		if !still {
			gone++
			continue
		}
		if overlays[v.Path] > 0 {
			if err := remark(ctx, pool, host, v); err != nil {
				return gone, err
			}
			gone++
			continue
		}
		if seen[name].next(v, seen[name].at, c.stall).still < stillLooks {
			continue // it has just moved
		}
		if err := pool.DeleteVolume(ctx, name); err != nil {
			return gone, err
		}
		gone++
		c.metrics.swept.WithLabelValues(host).Inc()
		c.log.LogAttrs(ctx, slog.LevelInfo, "dead partial image removed", slog.String("host", host), slog.String("volume", name))
	}
	return gone, nil
}
