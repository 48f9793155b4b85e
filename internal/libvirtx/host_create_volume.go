package libvirtx

import (
	"context"
	"fmt"
	"path"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// minNeededBytes is what making or finishing any volume takes at least: a
// header and the file system's own blocks. With less room than that a pool is full.
const minNeededBytes = 1 << 20

// CreateVolume makes a volume, atomically. One of that name makes it fail with
// ErrVolumeExists in the chain. Out of room: PoolFull.
func (h *Host) CreateVolume(ctx context.Context, v instance.NewVolume) (instance.Volume, error) {
	const op = "create volume"
	doc, err := volumeXML(v)
	if err != nil {
		return instance.Volume{}, h.fail(op, v.Name, &verdict{reason: instance.ReasonInternal, err: err})
	}
	var made libvirt.StorageVol
	create := func() error {
		return h.withPool(ctx, func(pool libvirt.StoragePool) (err error) {
			made, err = h.be.StorageVolCreateXML(ctx, pool, doc, 0)
			return err
		})
	}
	full := func() error {
		h.refreshBestEffort(ctx)
		return h.lacks(ctx, minNeededBytes)
	}
	if err := whileBusy(ctx, create, full); err != nil {
		return instance.Volume{}, h.failVolume(ctx, op, v.Name, h.whyNotCreated(ctx, v.Name, err, full))
	}
	file, err := h.pathOf(ctx, made)
	if err != nil {
		return instance.Volume{}, h.failVolume(ctx, op, v.Name, err)
	}
	return instance.Volume{
		Name: v.Name, Path: file, Format: v.Format,
		CapacityBytes: v.CapacityBytes, BackingPath: v.BackingPath,
	}, nil
}

// pathOf resolves a volume that was just made. In a pool of files its key is
// its path, which saves asking; elsewhere libvirt is asked.
func (h *Host) pathOf(ctx context.Context, v libvirt.StorageVol) (string, error) {
	if path.IsAbs(v.Key) && path.Base(v.Key) == v.Name {
		return v.Key, nil
	}
	return h.be.StorageVolGetPath(ctx, v)
}

// whyNotCreated looks behind the numbers that mean several things. 55 is a
// stopped pool, or a file of that name which libvirt has not scanned; 38 may
// be a full disk.
func (h *Host) whyNotCreated(ctx context.Context, name string, err error, full func() error) error {
	switch {
	case answered(err, libvirt.ErrStorageVolExist):
		return exists(err)
	case answered(err, libvirt.ErrSystemError):
		if lack := full(); lack != nil {
			return lack
		}
	case answered(err, libvirt.ErrOperationInvalid):
		if stopped := h.poolStopped(ctx); stopped != nil {
			return stopped
		}
		if h.refresh(ctx) != nil {
			return err
		}
		if _, lookupErr := h.be.StorageVolGetXMLDesc(ctx, h.volumeRef(name)); lookupErr == nil {
			return exists(err)
		}
	}
	return err
}

// exists is an outcome that the caller goes on with, so its reason hardly matters.
func exists(err error) error {
	return &verdict{
		reason: instance.ReasonLibvirtError,
		err:    fmt.Errorf("%w: %w", instance.ErrVolumeExists, err),
	}
}
