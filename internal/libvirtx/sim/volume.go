package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"
)

// volumeFormats are the formats of files that libvirt knows. Only raw and
// qcow2 get content that is told apart again.
var volumeFormats = []string{"raw", formatDir, "bochs", "cloop", "dmg", "iso", "vpc", "vdi", "fat", "vhd", "ploop", "cow", "qcow", "qcow2", "qed", "vmdk"}

// formatDir is a volume's that is a directory.
const formatDir = "dir"

// volumeRequest is a parsed volume XML.
type volumeRequest struct {
	name          string
	format        string
	version       uint32
	capacity      uint64
	allocation    uint64
	backing       string
	backingFormat string
}

func parseVolume(doc string) (volumeRequest, error) {
	if err := wellFormed(doc, "volume", "storage_volume_definition"); err != nil {
		return volumeRequest{}, err
	}
	var x libvirtxml.StorageVolume
	if err := x.Unmarshal(doc); err != nil {
		return volumeRequest{}, xmlFault("%v", err)
	}
	r := volumeRequest{name: x.Name, format: "raw", version: 2}
	if x.Target != nil && x.Target.Format != nil {
		r.format = x.Target.Format.Type
	}
	if x.Target != nil && x.Target.Compat == "1.1" {
		r.version = 3
	}
	if x.BackingStore != nil {
		r.backing = x.BackingStore.Path
		if x.BackingStore.Format != nil {
			r.backingFormat = x.BackingStore.Format.Type
		}
	}
	switch {
	case r.name == "":
		return r, xmlFault("missing volume name element")
	case strings.Contains(r.name, "/"):
		return r, invalid("volume name '%s' cannot contain '/'", r.name)
	case x.Capacity == nil && r.backing == "":
		return r, xmlFault("missing capacity element")
	case !slices.Contains(volumeFormats, r.format):
		return r, unsupported("unknown volume format type %s", r.format)
	}
	var err error
	if x.Capacity != nil {
		if r.capacity, err = inBytes(x.Capacity.Value, x.Capacity.Unit, 1); err != nil {
			return r, err
		}
	}
	r.allocation = r.capacity
	if x.Allocation != nil {
		r.allocation, err = inBytes(x.Allocation.Value, x.Allocation.Unit, 1)
	}
	return r, err
}

// inBytes scales n by libvirt's unit; without one by perUnit.
func inBytes(n uint64, unit string, perUnit uint64) (uint64, error) {
	switch strings.ToLower(unit) {
	case "":
		return n * perUnit, nil
	case "b", "byte", "bytes":
		return n, nil
	}
	base := uint64(1024)
	letter, rest := strings.ToLower(unit)[:1], strings.ToLower(unit)[1:]
	if rest == "b" {
		base = 1000
	}
	power := strings.Index("kmgtpe", letter)
	if power < 0 || (rest != "" && rest != "b" && rest != "ib") {
		return 0, fail(libvirt.ErrInvalidArg, "invalid argument: unknown suffix '%s'", unit)
	}
	for range power + 1 {
		n *= base
	}
	return n, nil
}

// createVolume makes the file of a request, atomically.
func (h *Host) createVolume(p *pool, r volumeRequest) (*file, error) {
	if old := p.files[r.name]; old != nil {
		if old.scanned {
			return nil, fail(libvirt.ErrStorageVolExist, "storage volume '%s' exists already", r.name)
		}
		return nil, invalid("volume target path '%s' already exists", p.path(r.name))
	}
	if err := h.checkBacking(&r); err != nil {
		return nil, err
	}
	now := h.now()
	f := &file{name: r.name, scanned: true, modified: now, accessed: now}
	switch r.format {
	case formatDir:
		f.dir = true
	case "qcow2":
		if p.free() < qcow2EmptyAllocation {
			return nil, fail(libvirt.ErrInternalError,
				"internal error: Child process (/usr/bin/qemu-img create) unexpected exit status 1: Could not write qcow2 header: No space left on device")
		}
		f.content.write(0, qcow2Header(r.version, r.capacity, r.backing, r.backingFormat))
		f.content.size, f.allocation = qcow2EmptyBytes, qcow2EmptyAllocation
	default:
		if r.allocation > p.free() {
			return nil, fail(libvirt.ErrSystemError,
				"cannot allocate %d bytes in file '%s': No space left on device", r.allocation, p.path(r.name))
		}
		f.content.size, f.allocation = r.capacity, roundUp(r.allocation)
	}
	f.probe()
	if r.format != "qcow2" {
		f.format = r.format
	}
	p.files[r.name] = f
	p.account(f.allocation)
	return f, nil
}

// checkBacking looks at the file that an overlay is made of, and takes over its
// capacity where the request has none.
func (h *Host) checkBacking(r *volumeRequest) error {
	if r.backing == "" {
		return nil
	}
	below := h.fileAt(r.backing)
	if below == nil {
		return fail(libvirt.ErrSystemError, "inaccessible backing store volume %s: No such file or directory", r.backing)
	}
	got := probe(below.content.head, below.content.size)
	if r.backingFormat == "qcow2" && got.format != "qcow2" {
		return fail(libvirt.ErrInternalError,
			"internal error: Child process (/usr/bin/qemu-img create) unexpected exit status 1: Image is not in qcow2 format")
	}
	if r.capacity == 0 {
		r.capacity = got.capacity
		if r.backingFormat == "raw" {
			r.capacity = below.content.size
		}
	}
	return nil
}

// volumeXML describes a volume as vol-dumpxml does.
func (h *Host) volumeXML(p *pool, f *file) (string, error) {
	bytes := func(n uint64) *libvirtxml.StorageVolumeSize {
		return &libvirtxml.StorageVolumeSize{Unit: "bytes", Value: n}
	}
	x := libvirtxml.StorageVolume{
		Type:       "file",
		Name:       f.name,
		Key:        p.path(f.name),
		Capacity:   bytes(f.capacity),
		Allocation: bytes(f.allocation),
		Physical:   bytes(f.content.size),
		Target: &libvirtxml.StorageVolumeTarget{
			Path:        p.path(f.name),
			Format:      &libvirtxml.StorageVolumeTargetFormat{Type: f.format},
			Permissions: &libvirtxml.StorageVolumeTargetPermissions{Mode: "0600", Owner: "0", Group: "0"},
			Timestamps: &libvirtxml.StorageVolumeTargetTimestamps{
				Atime: timestamp(f.accessed), Mtime: timestamp(f.modified), Ctime: timestamp(f.modified),
			},
		},
	}
	if f.version >= 3 {
		x.Target.Compat = "1.1"
		x.Target.ClusterSize = &libvirtxml.StorageVolumeTargetClusterSize{Unit: "B", Value: 1 << 16}
	}
	if f.backing != "" {
		x.BackingStore = &libvirtxml.StorageVolumeBackingStore{Path: f.backing}
		if f.backingFormat != "" {
			x.BackingStore.Format = &libvirtxml.StorageVolumeTargetFormat{Type: f.backingFormat}
		}
	}
	if f.dir {
		x.Type, x.Physical = "dir", nil
	}
	doc, err := x.Marshal()
	if err != nil {
		return "", fail(libvirt.ErrInternalError, "internal error: %v", err)
	}
	return doc + "\n", nil
}

// timestamp is seconds and nanoseconds since 1970, as libvirt writes times.
func timestamp(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }
