package libvirtx

import (
	"context"
	"fmt"
	"io"
	"strings"

	libvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/sync/errgroup"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// volumeReads bounds the volume descriptions that are read side by side.
const volumeReads = 64

// volumeRef is the handle of a volume of our pool: libvirt goes by the two
// names, so that it need not be looked up.
func (h *Host) volumeRef(name string) libvirt.StorageVol {
	return libvirt.StorageVol{Pool: h.opts.Pool, Name: name}
}

// failVolume is fail for a call on a volume: an absent one carries ErrNoVolume
// and is never NotFound, and a call that libvirt finds impossible may be so
// because the pool is stopped.
func (h *Host) failVolume(ctx context.Context, op, volume string, err error) error {
	switch {
	case answered(err, libvirt.ErrNoStorageVol):
		err = &verdict{
			reason: instance.ReasonVanished,
			err:    fmt.Errorf("%w: %w", instance.ErrNoVolume, err),
		}
	case answered(err, libvirt.ErrOperationInvalid):
		if stopped := h.poolStopped(ctx); stopped != nil {
			err = stopped
		}
	}
	return h.fail(op, volume, err)
}

// Volumes lists those whose name starts with prefix. One that vanishes while
// it is read is left out.
func (h *Host) Volumes(ctx context.Context, prefix string) ([]instance.Volume, error) {
	const op = "list volumes"
	var refs []libvirt.StorageVol
	err := h.withPool(ctx, func(pool libvirt.StoragePool) (err error) {
		refs, err = h.be.StoragePoolListAllVolumes(ctx, pool)
		return err
	})
	if err != nil {
		return nil, h.failVolume(ctx, op, "", err)
	}
	found := make([]*instance.Volume, len(refs))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(volumeReads)
	for i, ref := range refs {
		if !strings.HasPrefix(ref.Name, prefix) {
			continue
		}
		g.Go(safely(func() error {
			v, err := h.readVolume(gctx, ref)
			if answered(err, libvirt.ErrNoStorageVol) {
				return nil
			}
			found[i] = &v
			return err
		}))
	}
	if err := g.Wait(); err != nil {
		return nil, h.failVolume(ctx, op, "", err)
	}
	out := make([]instance.Volume, 0, len(found))
	for _, v := range found {
		if v != nil {
			out = append(out, *v)
		}
	}
	return out, nil
}

// Volume reads one. Absent: ErrNoVolume in the chain.
func (h *Host) Volume(ctx context.Context, name string) (instance.Volume, error) {
	v, err := h.readVolume(ctx, h.volumeRef(name))
	if err != nil {
		return instance.Volume{}, h.failVolume(ctx, "read volume", name, err)
	}
	return v, nil
}

func (h *Host) readVolume(ctx context.Context, ref libvirt.StorageVol) (instance.Volume, error) {
	doc, err := h.be.StorageVolGetXMLDesc(ctx, ref)
	if err != nil {
		return instance.Volume{}, err
	}
	return parseVolume(doc)
}

// Upload fills a volume with exactly length bytes of src; fewer is an error.
// Out of room: PoolFull.
func (h *Host) Upload(ctx context.Context, name string, src io.Reader, length int64) error {
	const op = "upload volume"
	if length <= 0 {
		return h.fail(op, name, verdictf(instance.ReasonInternal, "length of %d bytes", length))
	}
	err := h.be.StorageVolUpload(ctx, h.volumeRef(name), src, 0, uint64(length))
	if err == nil {
		return nil
	}
	if answered(err, libvirt.ErrSystemError, libvirt.ErrInternalError) {
		if full := h.uploadRanOut(ctx, name, length); full != nil {
			err = full
		}
	}
	return h.failVolume(ctx, op, name, err)
}

// uploadRanOut tells whether the pool has less room than what the upload still
// had to write; nil when it has not, or when that cannot be known.
func (h *Host) uploadRanOut(ctx context.Context, name string, length int64) error {
	h.refreshBestEffort(ctx)
	if v, err := h.readVolume(ctx, h.volumeRef(name)); err == nil {
		// What is on the disk may be more than what arrived, by a file system's blocks.
		return h.lacks(ctx, max(length-v.AllocationBytes, minNeededBytes))
	}
	return nil
}

// Rescan refreshes the pool, waiting for its jobs to end.
func (h *Host) Rescan(ctx context.Context) error {
	if err := h.refresh(ctx); err != nil {
		return h.failVolume(ctx, "refresh pool", "", err)
	}
	return nil
}

// DeleteVolume removes one; absent is success. One that libvirt has never seen
// is looked for in the pool's directory first: a console's log is written
// there behind libvirt's back.
func (h *Host) DeleteVolume(ctx context.Context, name string) error {
	const op = "delete volume"
	err := h.be.StorageVolDelete(ctx, h.volumeRef(name))
	if answered(err, libvirt.ErrNoStorageVol) {
		if err := h.refresh(ctx); err != nil {
			return h.failVolume(ctx, op, name, err)
		}
		err = h.be.StorageVolDelete(ctx, h.volumeRef(name))
	}
	if err != nil && !answered(err, libvirt.ErrNoStorageVol) {
		return h.failVolume(ctx, op, name, err)
	}
	return nil
}

// ReadVolume returns the last maxBytes of the volume's content, as of a fresh
// look at its length: a console's log grows behind libvirt's back.
func (h *Host) ReadVolume(ctx context.Context, name string, maxBytes int64) ([]byte, error) {
	const op = "read volume content"
	h.refreshBestEffort(ctx)
	v, err := h.readVolume(ctx, h.volumeRef(name))
	if err != nil {
		return nil, h.failVolume(ctx, op, name, err)
	}
	length := v.PhysicalBytes
	if length == 0 {
		length = v.CapacityBytes
	}
	count := min(length, maxBytes)
	if count <= 0 {
		return []byte{}, nil
	}
	content := &bounded{limit: int(count)}
	if err := h.be.StorageVolDownload(ctx, h.volumeRef(name), content, uint64(length-count), uint64(count)); err != nil {
		return nil, h.failVolume(ctx, op, name, err)
	}
	return content.bytes, nil
}

// bounded keeps the first limit bytes written to it and never fails, as a
// download's writer must not.
type bounded struct {
	bytes []byte
	limit int
}

func (b *bounded) Write(p []byte) (int, error) {
	b.bytes = append(b.bytes, p[:min(len(p), b.limit-len(b.bytes))]...)
	return len(p), nil
}
