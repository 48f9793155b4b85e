package libvirtx

import (
	"context"
	"io"
	"log/slog"

	libvirt "github.com/digitalocean/go-libvirt"
)

func (c calls) StoragePoolLookupByName(ctx context.Context, name string) (libvirt.StoragePool, error) {
	return ask(ctx, c.run, route("StoragePoolLookupByName", slog.String("pool", name)), func(ctx context.Context, b Backend) (libvirt.StoragePool, error) {
		return b.StoragePoolLookupByName(ctx, name)
	})
}

func (c calls) StoragePoolGetInfo(ctx context.Context, pool libvirt.StoragePool) (state uint8, capacity, allocation, available uint64, err error) {
	type info struct {
		state                           uint8
		capacity, allocation, available uint64
	}
	got, err := ask(ctx, c.run, onPool("StoragePoolGetInfo", pool), func(ctx context.Context, b Backend) (info, error) {
		var i info
		var err error
		i.state, i.capacity, i.allocation, i.available, err = b.StoragePoolGetInfo(ctx, pool)
		return i, err
	})
	return got.state, got.capacity, got.allocation, got.available, err
}

func (c calls) StoragePoolGetXMLDesc(ctx context.Context, pool libvirt.StoragePool) (string, error) {
	return ask(ctx, c.run, onPool("StoragePoolGetXMLDesc", pool), func(ctx context.Context, b Backend) (string, error) {
		return b.StoragePoolGetXMLDesc(ctx, pool)
	})
}

func (c calls) StoragePoolRefresh(ctx context.Context, pool libvirt.StoragePool) error {
	return tell(ctx, c.run, onPool("StoragePoolRefresh", pool), func(ctx context.Context, b Backend) error {
		return b.StoragePoolRefresh(ctx, pool)
	})
}

func (c calls) StoragePoolListAllVolumes(ctx context.Context, pool libvirt.StoragePool) ([]libvirt.StorageVol, error) {
	return ask(ctx, c.run, onPool("StoragePoolListAllVolumes", pool), func(ctx context.Context, b Backend) ([]libvirt.StorageVol, error) {
		return b.StoragePoolListAllVolumes(ctx, pool)
	})
}

func (c calls) StorageVolCreateXML(ctx context.Context, pool libvirt.StoragePool, xml string, flags libvirt.StorageVolCreateFlags) (libvirt.StorageVol, error) {
	return ask(ctx, c.run, onPool("StorageVolCreateXML", pool).withXML(xml), func(ctx context.Context, b Backend) (libvirt.StorageVol, error) {
		return b.StorageVolCreateXML(ctx, pool, xml, flags)
	})
}

func (c calls) StorageVolGetXMLDesc(ctx context.Context, vol libvirt.StorageVol) (string, error) {
	return ask(ctx, c.run, onVolume("StorageVolGetXMLDesc", vol), func(ctx context.Context, b Backend) (string, error) {
		return b.StorageVolGetXMLDesc(ctx, vol)
	})
}

func (c calls) StorageVolGetPath(ctx context.Context, vol libvirt.StorageVol) (string, error) {
	return ask(ctx, c.run, onVolume("StorageVolGetPath", vol), func(ctx context.Context, b Backend) (string, error) {
		return b.StorageVolGetPath(ctx, vol)
	})
}

func (c calls) StorageVolDelete(ctx context.Context, vol libvirt.StorageVol) error {
	return tell(ctx, c.run, onVolume("StorageVolDelete", vol), func(ctx context.Context, b Backend) error {
		return b.StorageVolDelete(ctx, vol)
	})
}

// StorageVolUpload sends exactly length bytes of src: a longer one is cut off,
// a shorter one is a *SourceError. It returns when ctx ends, also while src is
// blocked in Read; src is not the caller's again until that Read has returned.
func (c calls) StorageVolUpload(ctx context.Context, vol libvirt.StorageVol, src io.Reader, offset, length uint64) error {
	call := onVolume("StorageVolUpload", vol)
	call.detail = slog.Uint64("bytes", length)
	if length > sharedTransferBytes {
		call.lane = laneTransfer
	}
	return c.run.do(ctx, call, func(ctx context.Context, b Backend, in inflight) error {
		return upload(ctx, src, length, in, func(src io.Reader) error {
			return b.StorageVolUpload(ctx, vol, src, offset, length)
		})
	})
}

// StorageVolDownload writes at most length bytes to dst, which it leaves alone
// once it has returned. Unlike the Backend below it, it takes a dst that fails.
func (c calls) StorageVolDownload(ctx context.Context, vol libvirt.StorageVol, dst io.Writer, offset, length uint64) error {
	call := onVolume("StorageVolDownload", vol)
	call.detail = slog.Uint64("bytes", length)
	out := &sink{dst: dst, left: length}
	err := c.run.do(ctx, call, func(ctx context.Context, b Backend, in inflight) error {
		return b.StorageVolDownload(ctx, vol, progressWriter{out, in.progress}, offset, length)
	})
	if dstErr := out.stop(); err == nil {
		err = dstErr
	}
	return err
}
