package image

import (
	"context"
	"errors"
	"fmt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// download brings one content into the pool, from the first byte again as often
// as the source changes under it, within the bound on resumes.
func (c *Cache) download(ctx, undo context.Context, pool Pool, img instance.Image, f *flight) (instance.Base, error) {
	admitted := f.facts.poolBytes
	for restarts := 0; ; restarts++ {
		// Another daemon, or the flight before, may have been quicker.
		base, state, err := find(ctx, pool, f.key, "")
		if err != nil || state == marked {
			return base, err
		}
		base, err = c.attempt(ctx, undo, pool, img, f, admitted)
		if err == nil || !errors.Is(err, errRestart) || restarts >= c.source.resumes {
			return base, err
		}
	}
}

// attempt is one try with a volume of its own. Whatever fails, the volume goes.
// admitted is the room that was checked for the image.
func (c *Cache) attempt(ctx, undo context.Context, pool Pool, img instance.Image, f *flight, admitted int64) (instance.Base, error) {
	content, err := c.openMeasured(ctx, img, f)
	if err != nil {
		return instance.Base{}, err
	}
	defer content.close()
	if content.poolBytes > admitted {
		if _, err := pool.CheckSpace(ctx, content.poolBytes); err != nil {
			return instance.Base{}, err
		}
	}
	name := f.key.newBase(content.format)
	c.writing(f, name)
	defer c.writing(f, "")
	base, keep, err := c.fill(ctx, undo, pool, f, content, name)
	if !keep {
		c.discard(undo, pool, f, name)
	}
	return base, err
}

// openMeasured opens img with its length in the pool known. Only reading a
// compressed image to its end tells that, and nothing may be kept meanwhile, so
// such an image is downloaded twice: once to measure and verify it, once to store it.
func (c *Cache) openMeasured(ctx context.Context, img instance.Image, f *flight) (*content, error) {
	first, err := c.source.open(ctx, img, f.progress, 0)
	if err != nil {
		return nil, err
	}
	if first.compression == "" {
		f.progress.restart(first.stream.at.offset, first.sourceBytes)
		return first, nil
	}
	f.progress.restart(first.stream.at.offset, 2*first.sourceBytes)
	length, err := first.measure()
	first.close() // before there is a second decoder
	if err != nil {
		return nil, err
	}
	return c.source.open(ctx, img, f.progress, length)
}

// fill makes the volume, writes the content into it, checks both, and marks it.
// keep says whether the volume must stay: it is the base, or nobody can tell.
func (c *Cache) fill(ctx, undo context.Context, pool Pool, f *flight, content *content, name string) (base instance.Base, keep bool, err error) {
	_, err = pool.CreateVolume(ctx, instance.NewVolume{Name: name, Format: content.format, CapacityBytes: content.virtualBytes})
	if err != nil {
		// A namesake is not ours to remove.
		return instance.Base{}, errors.Is(err, instance.ErrVolumeExists), err
	}
	if err := store(ctx, pool, content, name); err != nil {
		return instance.Base{}, false, err
	}
	vol, err := readVolume(ctx, pool, name)
	if err != nil {
		return instance.Base{}, false, err
	}
	if err := checkStored(f.key, vol, content); err != nil {
		return instance.Base{}, false, err
	}
	ours := baseOf(f.key, vol, content.format)
	winner, settled, err := mark(ctx, undo, pool, f.key, ours)
	return winner, !settled || (err == nil && winner.Volume == name), err
}

// store uploads the content and checks it to its end.
func store(ctx context.Context, pool Pool, content *content, name string) error {
	err := pool.Upload(ctx, name, content, content.lengthBytes)
	if err == nil {
		return content.finish()
	}
	content.close() // a Read may still be blocked; then its error is final
	if src := content.failure(); src != nil {
		return src
	}
	return err
}

// checkStored holds what the host says it has against what was sent.
func checkStored(k key, vol instance.Volume, content *content) error {
	short := vol.PhysicalBytes > 0 && vol.PhysicalBytes < content.lengthBytes
	if !short && vol.CapacityBytes == content.virtualBytes {
		return nil
	}
	return &instance.Error{
		Reason: instance.ReasonDownloadFailed, Op: "store image " + k.image, Host: k.host,
		Detail: fmt.Sprintf("sent %d bytes for a disk of %d, the host has %d for a disk of %d",
			content.lengthBytes, content.virtualBytes, vol.PhysicalBytes, vol.CapacityBytes),
	}
}

// writing notes the volume that a flight fills, so that no sweep takes it.
func (c *Cache) writing(f *flight, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.volume = name
}

// discard removes the volume of a failed or lost attempt. What cannot be removed
// now is swept later.
func (c *Cache) discard(undo context.Context, pool Pool, f *flight, name string) {
	ctx, cancel := context.WithTimeout(undo, undoLimit)
	defer cancel()
	if err := pool.DeleteVolume(ctx, name); err != nil {
		f.trail.Warn(fmt.Sprintf("partial image volume %s stays on %s until it is swept: %v", name, f.key.host, err))
	}
}
