package sim

import (
	"context"
	"errors"
	"io"

	libvirt "github.com/digitalocean/go-libvirt"
)

// chunkBytes is how much of a transfer is moved at a time.
const chunkBytes = 256 << 10

// volume finds a volume by the names in its handle. The host is locked.
func (h *Host) volume(ref libvirt.StorageVol) (*pool, *file, error) {
	p := h.poolNamed(ref.Pool)
	if p == nil {
		return nil, nil, noPool(ref.Pool)
	}
	f, err := p.find(ref.Name)
	return p, f, err
}

// find looks a volume up in an active pool.
func (p *pool) find(name string) (*file, error) {
	if !p.active {
		return nil, invalid("storage pool '%s' is not active", p.name)
	}
	f := p.files[name]
	if f == nil || !f.scanned {
		return nil, fail(libvirt.ErrNoStorageVol, "Storage volume not found: no storage vol with matching name '%s'", name)
	}
	return f, nil
}

func (c *conn) onVolume(ctx context.Context, method string, ref libvirt.StorageVol, effect func(*pool, *file) error) error {
	return c.call(ctx, method, ref.Name, func() error {
		p, f, err := c.host.volume(ref)
		if err != nil {
			return err
		}
		return effect(p, f)
	})
}

func (c *conn) StorageVolCreateXML(
	ctx context.Context, ref libvirt.StoragePool, xml string, _ libvirt.StorageVolCreateFlags,
) (out libvirt.StorageVol, err error) {
	// While the call takes its time the pool has a job, as a real one has.
	c.host.job(ref, +1)
	defer c.host.job(ref, -1)
	err = c.onPool(ctx, "StorageVolCreateXML", ref, true, func(p *pool) error {
		r, err := parseVolume(xml)
		if err != nil {
			return err
		}
		f, err := c.host.createVolume(p, r)
		if err == nil {
			out = p.volume(f)
		}
		return err
	})
	return out, err
}

func (h *Host) job(ref libvirt.StoragePool, by int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pools {
		if p.uuid == ref.UUID {
			p.building += by
		}
	}
}

func (c *conn) StorageVolGetXMLDesc(ctx context.Context, ref libvirt.StorageVol) (doc string, err error) {
	err = c.onVolume(ctx, "StorageVolGetXMLDesc", ref, func(p *pool, f *file) (err error) {
		doc, err = c.host.volumeXML(p, f)
		return err
	})
	return doc, err
}

func (c *conn) StorageVolGetPath(ctx context.Context, ref libvirt.StorageVol) (path string, err error) {
	err = c.onVolume(ctx, "StorageVolGetPath", ref, func(p *pool, f *file) error {
		path = p.path(f.name)
		return nil
	})
	return path, err
}

// StorageVolDelete asks nobody whether the volume is in use; libvirt does not either.
func (c *conn) StorageVolDelete(ctx context.Context, ref libvirt.StorageVol) error {
	return c.onVolume(ctx, "StorageVolDelete", ref, func(p *pool, f *file) error {
		delete(p.files, f.name)
		p.unaccount(f.allocation)
		return nil
	})
}

// StorageVolUpload writes what src has. Fewer bytes than length and more than
// the volume's capacity are taken without complaint; only going on after length
// fails. At the end, good or bad, libvirt looks at the pool anew.
func (c *conn) StorageVolUpload(ctx context.Context, ref libvirt.StorageVol, src io.Reader, offset, length uint64) error {
	v, err := c.host.enter(ctx, c, "StorageVolUpload", ref.Name)
	if err != nil {
		return err
	}
	c.host.mu.Lock()
	p, f, err := c.host.volume(ref)
	if err == nil && f.dir {
		err = fail(libvirt.ErrSystemError, "Unable to open stream for '%s': Is a directory", p.path(f.name))
	}
	c.host.mu.Unlock()
	if err == nil {
		err = c.receive(v, p, f, src, offset, length)
		c.host.mu.Lock()
		if p.building == 0 {
			p.look()
		}
		c.host.mu.Unlock()
	}
	return v.leave(err)
}

// receive copies src into f, without the lock while src is read.
func (c *conn) receive(v visit, p *pool, f *file, src io.Reader, offset, length uint64) error {
	buf, done := make([]byte, chunkBytes), uint64(0)
	for {
		n, readErr := src.Read(buf)
		if c.alive() != nil {
			return libvirt.ErrInterrupted
		}
		chunk := buf[:n]
		var stop error
		switch {
		case v.fault != nil && v.fault.AfterBytes > 0 && done+uint64(n) >= v.fault.AfterBytes:
			chunk = chunk[:v.fault.AfterBytes-done]
			stop = errInjected
		case length > 0 && done+uint64(n) > length:
			chunk = chunk[:length-done]
			stop = fail(libvirt.ErrSystemError, "cannot write to stream: No space left on device")
		}
		c.host.mu.Lock()
		wrote := f.write(p, offset+done, chunk, c.host.now())
		c.host.mu.Unlock()
		done += uint64(wrote)
		switch {
		case wrote < len(chunk):
			return fail(libvirt.ErrSystemError, "Unable to write %s: No space left on device", p.path(f.name))
		case errors.Is(stop, errInjected):
			return v.fail()
		case stop != nil:
			return stop
		case errors.Is(readErr, io.EOF):
			return nil
		case readErr != nil:
			return readErr
		}
	}
}

// errInjected marks the byte at which an injected fault ends an upload.
var errInjected = errors.New("injected fault")

// StorageVolDownload copies length bytes (0: all) from offset to dst, fewer
// when the file ends before.
func (c *conn) StorageVolDownload(ctx context.Context, ref libvirt.StorageVol, dst io.Writer, offset, length uint64) error {
	v, err := c.host.enter(ctx, c, "StorageVolDownload", ref.Name)
	if err != nil {
		return err
	}
	c.host.mu.Lock()
	_, f, err := c.host.volume(ref)
	c.host.mu.Unlock()
	if err == nil {
		err = c.send(f, dst, offset, length)
	}
	return v.leave(err)
}

func (c *conn) send(f *file, dst io.Writer, offset, length uint64) error {
	buf, done := make([]byte, chunkBytes), uint64(0)
	for {
		want := uint64(len(buf))
		if length > 0 {
			want = min(want, length-done)
		}
		if c.alive() != nil {
			return libvirt.ErrInterrupted
		}
		c.host.mu.Lock()
		n := f.content.read(offset+done, buf[:want])
		c.host.mu.Unlock()
		if n == 0 {
			return nil
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return err
		}
		done += uint64(n)
	}
}
