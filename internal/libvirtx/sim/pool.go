package sim

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"
)

// pool is a directory pool: the files that are really there, and the figures
// and volumes as libvirt last saw them.
type pool struct {
	name     string
	uuid     libvirt.UUID
	dir      string
	capacity uint64
	active   bool
	files    map[string]*file
	// other is what the file system holds besides the pool's files.
	other uint64
	// allocation and available are the figures of the last look.
	allocation uint64
	available  uint64
	// building counts volumes being made; a refresh is refused meanwhile.
	building int
}

// file is one file of a pool's directory, and a volume once it was scanned.
type file struct {
	name    string
	format  string
	scanned bool
	// dir is set for a directory, which has no content.
	dir     bool
	content content
	// capacity, version, backing and backingFormat are as of the last probe.
	capacity      uint64
	version       uint32
	backing       string
	backingFormat string
	// allocation is what it takes on disk.
	allocation uint64
	modified   time.Time
	accessed   time.Time
}

func newPool(name, dir string, capacity uint64, id libvirt.UUID) *pool {
	p := &pool{name: name, uuid: id, dir: path.Clean(dir), capacity: capacity, active: true, files: map[string]*file{}}
	p.look()
	return p
}

// used and free are the truth, whatever libvirt thinks.
func (p *pool) used() uint64 {
	total := p.other
	for _, f := range p.files {
		total += f.allocation
	}
	return total
}

func (p *pool) free() uint64 { return p.capacity - min(p.capacity, p.used()) }

// look brings figures and volumes up to date.
func (p *pool) look() {
	for _, f := range p.files {
		f.scanned = true
		f.probe()
	}
	p.allocation, p.available = p.used(), p.free()
}

// account moves the figures by what a volume took, without looking.
func (p *pool) account(allocation uint64) {
	p.allocation += allocation
	p.available -= min(p.available, allocation)
}

func (p *pool) unaccount(allocation uint64) {
	p.allocation -= min(p.allocation, allocation)
	p.available += allocation
}

func (p *pool) path(name string) string { return p.dir + "/" + name }

func (p *pool) sortedFiles() []*file {
	out := make([]*file, 0, len(p.files))
	for _, f := range p.files {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *file) int { return strings.Compare(a.name, b.name) })
	return out
}

// probe reads the file's format, capacity and backing file from its content.
func (f *file) probe() {
	if f.dir {
		f.format = formatDir
		return
	}
	got := probe(f.content.head, f.content.size)
	f.format, f.capacity, f.version = got.format, got.capacity, got.version
	f.backing, f.backingFormat = got.backing, got.backingFormat
}

// write puts p at off and says how much of it there was room for.
func (f *file) write(p *pool, off uint64, b []byte, now time.Time) int {
	n := len(b)
	end := off + uint64(n)
	grown := roundUp(max(end, f.content.size))
	add := min(roundUp(uint64(n)), grown-min(grown, f.allocation))
	if free := p.free(); add > free {
		n -= min(n, int(min(add-free, uint64(n))))
		add = free
	}
	if n == 0 && len(b) > 0 {
		return 0
	}
	f.allocation += add
	f.content.write(off, b[:n])
	f.modified = now
	return n
}

func roundUp(n uint64) uint64 { return (n + blockBytes - 1) / blockBytes * blockBytes }

// fileAt finds the file of that path in any pool's directory, nil when there is none.
func (h *Host) fileAt(at string) *file {
	p := h.poolOf(at)
	if p == nil {
		return nil
	}
	return p.files[path.Base(at)]
}

func (h *Host) poolOf(at string) *pool {
	for _, p := range h.pools {
		if p.dir == path.Dir(at) {
			return p
		}
	}
	return nil
}

func (h *Host) poolNamed(name string) *pool {
	for _, p := range h.pools {
		if p.name == name {
			return p
		}
	}
	return nil
}

func noPool(name string) error {
	return fail(libvirt.ErrNoStoragePool, "Storage pool not found: no storage pool with matching name '%s'", name)
}

// onPool passes the gate and runs effect on the pool of that handle, by UUID.
// Most calls want it active.
func (c *conn) onPool(ctx context.Context, method string, ref libvirt.StoragePool, active bool, effect func(*pool) error) error {
	return c.call(ctx, method, ref.Name, func() error {
		for _, p := range c.host.pools {
			if p.uuid != ref.UUID {
				continue
			}
			if active && !p.active {
				return invalid("storage pool '%s' is not active", p.name)
			}
			return effect(p)
		}
		return fail(libvirt.ErrNoStoragePool,
			"Storage pool not found: no storage pool with matching uuid '%s' (%s)", uuid.UUID(ref.UUID), ref.Name)
	})
}

func (c *conn) StoragePoolLookupByName(ctx context.Context, name string) (out libvirt.StoragePool, err error) {
	err = c.call(ctx, "StoragePoolLookupByName", name, func() error {
		p := c.host.poolNamed(name)
		if p == nil {
			return noPool(name)
		}
		out = libvirt.StoragePool{Name: p.name, UUID: p.uuid}
		return nil
	})
	return out, err
}

func (c *conn) StoragePoolGetInfo(
	ctx context.Context, ref libvirt.StoragePool,
) (state uint8, capacity, allocation, available uint64, err error) {
	err = c.onPool(ctx, "StoragePoolGetInfo", ref, false, func(p *pool) error {
		if !p.active {
			return nil
		}
		state, capacity, allocation, available = uint8(libvirt.StoragePoolRunning), p.capacity, p.allocation, p.available
		return nil
	})
	return state, capacity, allocation, available, err
}

func (c *conn) StoragePoolGetXMLDesc(ctx context.Context, ref libvirt.StoragePool) (doc string, err error) {
	err = c.onPool(ctx, "StoragePoolGetXMLDesc", ref, false, func(p *pool) error {
		out := libvirtxml.StoragePool{
			Type: "dir", Name: p.name, UUID: uuid.UUID(p.uuid).String(),
			Target: &libvirtxml.StoragePoolTarget{Path: p.dir},
		}
		doc, err = out.Marshal()
		return err
	})
	return doc, err
}

func (c *conn) StoragePoolRefresh(ctx context.Context, ref libvirt.StoragePool) error {
	return c.onPool(ctx, "StoragePoolRefresh", ref, true, func(p *pool) error {
		if p.building > 0 {
			return fail(libvirt.ErrInternalError, "internal error: pool '%s' has asynchronous jobs running.", p.name)
		}
		p.look()
		return nil
	})
}

func (c *conn) StoragePoolListAllVolumes(ctx context.Context, ref libvirt.StoragePool) (out []libvirt.StorageVol, err error) {
	err = c.onPool(ctx, "StoragePoolListAllVolumes", ref, true, func(p *pool) error {
		for _, f := range p.sortedFiles() {
			if f.scanned {
				out = append(out, p.volume(f))
			}
		}
		return nil
	})
	return out, err
}

func (p *pool) volume(f *file) libvirt.StorageVol {
	return libvirt.StorageVol{Pool: p.name, Name: f.name, Key: p.path(f.name)}
}
