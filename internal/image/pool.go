package image

import (
	"context"
	"errors"
	"io"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// Pool is one host's storage pool as the cache needs it; instance.HostVolumes
// has the full contract of each method. Errors are *instance.Error and name
// the host already.
type Pool interface {
	// Volumes lists those whose name starts with prefix.
	Volumes(ctx context.Context, prefix string) ([]instance.Volume, error)
	// Volume reads one; absent is ErrNoVolume in the chain.
	Volume(ctx context.Context, name string) (instance.Volume, error)
	// CreateVolume makes one atomically; a namesake is ErrVolumeExists in the chain.
	CreateVolume(ctx context.Context, v instance.NewVolume) (instance.Volume, error)
	// Upload fills a volume with exactly length bytes of src.
	Upload(ctx context.Context, name string, src io.Reader, length int64) error
	// DeleteVolume removes one; absent is success.
	DeleteVolume(ctx context.Context, name string) error
	// CheckSpace refreshes the pool and fails with PoolFull below neededBytes.
	CheckSpace(ctx context.Context, neededBytes int64) (availableBytes int64, err error)
}

// readVolume reads one volume.
func readVolume(ctx context.Context, pool Pool, name string) (instance.Volume, error) {
	return lookAgain(ctx, pool, func() (instance.Volume, error) { return pool.Volume(ctx, name) })
}

// listVolumes lists the volumes whose name starts with prefix.
func listVolumes(ctx context.Context, pool Pool, prefix string) ([]instance.Volume, error) {
	return lookAgain(ctx, pool, func() ([]instance.Volume, error) { return pool.Volumes(ctx, prefix) })
}

// lookAgain is for reads. libvirt answers from what it scanned last, and with an
// error of no use when a file has gone meanwhile, so such an error is looked at
// again after the pool was refreshed, which asking for its space does.
func lookAgain[T any](ctx context.Context, pool Pool, read func() (T, error)) (T, error) {
	v, err := read()
	if err == nil || errors.Is(err, instance.ErrNoVolume) || instance.ReasonOf(err) != instance.ReasonLibvirtError {
		return v, err
	}
	if _, spaceErr := pool.CheckSpace(ctx, 0); spaceErr != nil {
		return v, err
	}
	return read()
}

// vanished turns "no such volume" in the middle of our own work into Vanished:
// somebody removed it under us, which a repeat heals.
func vanished(err error, op, host string) error {
	if err == nil || !errors.Is(err, instance.ErrNoVolume) {
		return err
	}
	return &instance.Error{Reason: instance.ReasonVanished, Op: op, Host: host, Err: err}
}
