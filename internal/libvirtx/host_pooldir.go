package libvirtx

import (
	"context"
	"fmt"
	"path"
	"sync"

	libvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// poolDir remembers where the pool of a UUID is. The zero value is ready.
type poolDir struct {
	mu  sync.Mutex
	of  libvirt.UUID
	dir string
}

func (d *poolDir) get(pool libvirt.StoragePool) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of != pool.UUID {
		return ""
	}
	return d.dir
}

func (d *poolDir) put(pool libvirt.StoragePool, dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of, d.dir = pool.UUID, dir
}

// RootDiskInPool reports whether m's root disk belongs into the configured
// pool, be the file there or not. It is asked before m is removed: a pool that
// was exchanged in the configuration, or a libvirt under two names, must not
// cost a machine whose disk is elsewhere. Without a root disk, or without the
// pool, there is nothing elsewhere to lose.
func (h *Host) RootDiskInPool(ctx context.Context, m instance.Machine) (bool, error) {
	if m.RootDisk == "" {
		return true, nil
	}
	at := path.Dir(path.Clean(m.RootDisk))
	inPool := false
	err := h.withPool(ctx, func(pool libvirt.StoragePool) error {
		if inPool = h.dir.get(pool) == at; inPool {
			return nil
		}
		// What was remembered is read again before it is held against the machine.
		dir, err := h.readPoolDir(ctx, pool)
		inPool = dir == at
		return err
	})
	if answered(err, libvirt.ErrNoStoragePool) {
		return true, nil
	}
	if err != nil {
		return false, h.fail("read pool", "", err)
	}
	return inPool, nil
}

func (h *Host) readPoolDir(ctx context.Context, pool libvirt.StoragePool) (string, error) {
	doc, err := h.be.StoragePoolGetXMLDesc(ctx, pool)
	if err != nil {
		return "", err
	}
	var in libvirtxml.StoragePool
	if err := in.Unmarshal(doc); err != nil {
		return "", fmt.Errorf("parse pool: %w", err)
	}
	if in.Target == nil || in.Target.Path == "" {
		return "", verdictf(instance.ReasonMisconfigured, "pool %s has no directory", h.opts.Pool)
	}
	dir := path.Clean(in.Target.Path)
	h.dir.put(pool, dir)
	return dir, nil
}
