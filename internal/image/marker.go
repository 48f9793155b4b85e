package image

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// markerBytes is the marker's virtual size; its file holds nothing but the pointer.
const markerBytes = 1 << 20

// standing is what the host says about one content.
type standing int

const (
	// unmarked: there is no marker.
	unmarked standing = iota
	// stale: there is a marker, and what it points at is gone or not of this content.
	stale
	// marked: there is a marker, and its base is there.
	marked
)

// find reads the marker and the base it points at. hint is the base that is
// expected, read at the same time so that the usual case is one round trip.
func find(ctx context.Context, pool Pool, k key, hint string) (instance.Base, standing, error) {
	var (
		expected    instance.Volume
		expectedErr error
		aside       sync.WaitGroup
	)
	if hint != "" {
		aside.Go(func() {
			expectedErr = instance.Guard(func() (err error) {
				expected, err = readVolume(ctx, pool, hint)
				return err
			})
		})
	}
	marker, err := readVolume(ctx, pool, k.marker())
	aside.Wait()
	switch {
	case errors.Is(err, instance.ErrNoVolume):
		return instance.Base{}, unmarked, nil
	case err != nil:
		return instance.Base{}, unmarked, err
	}
	name := path.Base(marker.BackingPath)
	parsed, ok := parseName(name)
	if !ok || parsed.isMarker() || !strings.HasPrefix(name, k.prefix()) {
		return instance.Base{}, stale, nil
	}
	vol, err := expected, expectedErr
	if name != hint {
		vol, err = readVolume(ctx, pool, name)
	}
	switch {
	case errors.Is(err, instance.ErrNoVolume):
		return instance.Base{}, stale, nil
	case err != nil:
		return instance.Base{}, unmarked, err
	case vol.Path != marker.BackingPath:
		return instance.Base{}, stale, nil
	}
	return baseOf(k, vol, parsed.format), marked, nil
}

func baseOf(k key, vol instance.Volume, format string) instance.Base {
	return instance.Base{
		Image: k.image, Identity: k.identity, Volume: vol.Name, Path: vol.Path, Format: format, VirtualBytes: vol.CapacityBytes,
	}
}

// mark makes base the one of its content and returns the one that is: another's
// when that was first. A marker that points at nothing is replaced. With
// settled false nobody could tell whether the marker was made, and base must
// stay: if it was, machines may be built on it; if not, it is swept later.
// undo outlives ctx, so that the outcome is looked up even then.
func mark(ctx, undo context.Context, pool Pool, k key, base instance.Base) (winner instance.Base, settled bool, err error) {
	for range 3 {
		_, err = pool.CreateVolume(ctx, instance.NewVolume{
			Name: k.marker(), Format: formatQCOW2, CapacityBytes: markerBytes,
			BackingPath: base.Path, BackingFormat: base.Format,
		})
		if err == nil {
			return base, true, nil
		}
		current, state, findErr := find(undo, pool, k, base.Volume)
		switch {
		case findErr != nil:
			return instance.Base{}, false, err
		case state == marked:
			return current, true, nil
		case state == unmarked && !errors.Is(err, instance.ErrVolumeExists):
			return instance.Base{}, true, err
		case state == stale:
			if err := pool.DeleteVolume(undo, k.marker()); err != nil {
				return instance.Base{}, false, err
			}
		}
	}
	return instance.Base{}, true, &instance.Error{
		Reason: instance.ReasonVanished, Op: "mark image " + k.image, Host: k.host, Detail: "its marker comes and goes", Err: err,
	}
}

// Confirm implements instance.Images: one read of the marker.
func (c *Cache) Confirm(ctx context.Context, host string, base instance.Base) error {
	pool, err := c.pool(host)
	if err != nil {
		return err
	}
	k := key{host: host, image: base.Image, identity: base.Identity}
	marker, err := readVolume(ctx, pool, k.marker())
	switch {
	case err == nil && marker.BackingPath == base.Path:
		return nil
	case err == nil || errors.Is(err, instance.ErrNoVolume):
		return &instance.Error{
			Reason: instance.ReasonVanished, Op: "confirm image " + base.Image, Host: host, Detail: "the base disk was removed or replaced meanwhile",
		}
	default:
		return err
	}
}

// overlaysOf counts, by path, the volumes of the pool that are built on it.
// Markers point at a base without using it.
func overlaysOf(vols []instance.Volume) map[string]int {
	counts := map[string]int{}
	for _, v := range vols {
		if n, ours := parseName(v.Name); v.BackingPath != "" && (!ours || !n.isMarker()) {
			counts[v.BackingPath]++
		}
	}
	return counts
}

// markedPaths are the paths that any marker points at.
func markedPaths(vols []instance.Volume) map[string]bool {
	paths := map[string]bool{}
	for _, v := range vols {
		if n, ok := parseName(v.Name); ok && n.isMarker() {
			paths[v.BackingPath] = true
		}
	}
	return paths
}
