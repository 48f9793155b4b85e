package image

import (
	"encoding/binary"
	"fmt"
)

// What a qcow2 header says, by the format's specification (versions 2 and 3).
const (
	qcow2Magic        = "QFI\xfb"
	qcow2V2HeaderSize = 72
	qcow2V3HeaderSize = 104

	// Incompatible features.
	qcow2Dirty        = 1 << 0
	qcow2Corrupt      = 1 << 1
	qcow2ExternalData = 1 << 2
	qcow2Compression  = 1 << 3
	qcow2ExtendedL2   = 1 << 4
	qcow2Known        = qcow2Dirty | qcow2Corrupt | qcow2ExternalData | qcow2Compression | qcow2ExtendedL2

	// qcow2Zstd is the only compression besides zlib, which is no feature.
	qcow2Zstd = 1

	// Limits that QEMU itself sets.
	qcow2MaxL1Bytes       = 32 << 20
	qcow2MaxRefcountBytes = 8 << 20
	qcow2MaxSnapshots     = 65536

	maxVirtualBytes = 64 << 40
)

// qcow2Header is the part of the header that decides whether we take the file.
type qcow2Header struct {
	version          uint32
	backingOffset    uint64
	clusterBits      uint32
	virtualBytes     uint64
	cryptMethod      uint32
	l1Entries        uint32
	l1Offset         uint64
	refcountOffset   uint64
	refcountClusters uint32
	snapshots        uint32
	snapshotsOffset  uint64
	incompatible     uint64
	refcountOrder    uint32
	headerBytes      uint32
	compression      byte
}

// parseQCOW2 reads the header at the start of head and returns the virtual size
// of the disk. fileBytes is the file's length, 0 when it is not known yet. The
// error says what makes the file useless as a base disk.
func parseQCOW2(head []byte, fileBytes int64) (virtualBytes int64, err error) {
	h, err := decodeQCOW2(head)
	if err != nil {
		return 0, err
	}
	if err := h.checkFeatures(); err != nil {
		return 0, err
	}
	if err := h.checkTables(fileBytes); err != nil {
		return 0, err
	}
	return int64(h.virtualBytes), nil
}

func decodeQCOW2(head []byte) (qcow2Header, error) {
	if len(head) < qcow2V2HeaderSize {
		return qcow2Header{}, fmt.Errorf("qcow2 header cut off after %d bytes", len(head))
	}
	be := binary.BigEndian
	h := qcow2Header{
		version:          be.Uint32(head[4:]),
		backingOffset:    be.Uint64(head[8:]),
		clusterBits:      be.Uint32(head[20:]),
		virtualBytes:     be.Uint64(head[24:]),
		cryptMethod:      be.Uint32(head[32:]),
		l1Entries:        be.Uint32(head[36:]),
		l1Offset:         be.Uint64(head[40:]),
		refcountOffset:   be.Uint64(head[48:]),
		refcountClusters: be.Uint32(head[56:]),
		snapshots:        be.Uint32(head[60:]),
		snapshotsOffset:  be.Uint64(head[64:]),
		refcountOrder:    4,
		headerBytes:      qcow2V2HeaderSize,
	}
	switch h.version {
	case 2:
		return h, nil
	case 3:
	default:
		return h, fmt.Errorf("qcow2 version %d is not supported, only 2 and 3", h.version)
	}
	if len(head) < qcow2V3HeaderSize {
		return h, fmt.Errorf("qcow2 header cut off after %d bytes", len(head))
	}
	h.incompatible = be.Uint64(head[72:])
	h.refcountOrder = be.Uint32(head[96:])
	h.headerBytes = be.Uint32(head[100:])
	if h.headerBytes > qcow2V3HeaderSize && len(head) > qcow2V3HeaderSize {
		h.compression = head[qcow2V3HeaderSize]
	}
	return h, nil
}

// checkFeatures refuses what a base disk must not have: anything that lies
// outside the file, that needs a key, or that nobody here knows.
func (h qcow2Header) checkFeatures() error {
	switch {
	case h.backingOffset != 0:
		return fmt.Errorf("qcow2 has a backing file: it is not a whole disk")
	case h.cryptMethod != 0:
		return fmt.Errorf("qcow2 is encrypted")
	case h.incompatible&qcow2ExternalData != 0:
		return fmt.Errorf("qcow2 has an external data file: it is not a whole disk")
	case h.incompatible&qcow2Corrupt != 0:
		return fmt.Errorf("qcow2 is marked corrupt")
	case h.incompatible&^qcow2Known != 0:
		return fmt.Errorf("qcow2 has unknown incompatible features %#x", h.incompatible&^qcow2Known)
	case h.incompatible&qcow2Compression != 0 && h.compression != qcow2Zstd:
		return fmt.Errorf("qcow2 has an unknown compression, %d", h.compression)
	case h.clusterBits < 9 || h.clusterBits > 21:
		return fmt.Errorf("qcow2 has impossible clusters of 2^%d bytes", h.clusterBits)
	case h.headerBytes < qcow2V2HeaderSize || uint64(h.headerBytes) > h.clusterBytes():
		return fmt.Errorf("qcow2 has an impossible header length of %d", h.headerBytes)
	case h.version == 3 && h.headerBytes < qcow2V3HeaderSize:
		return fmt.Errorf("qcow2 has an impossible header length of %d", h.headerBytes)
	case h.refcountOrder > 6:
		return fmt.Errorf("qcow2 has impossible refcounts of 2^%d bits", h.refcountOrder)
	case h.virtualBytes == 0 || h.virtualBytes > maxVirtualBytes:
		return fmt.Errorf("qcow2 has an impossible virtual size of %d bytes", h.virtualBytes)
	}
	return nil
}

// checkTables refuses tables that cannot describe the disk or do not fit the file.
func (h qcow2Header) checkTables(fileBytes int64) error {
	refcountBytes := uint64(h.refcountClusters) * h.clusterBytes()
	switch {
	case uint64(h.l1Entries) < h.neededL1() || uint64(h.l1Entries)*8 > qcow2MaxL1Bytes:
		return fmt.Errorf("qcow2 has an impossible L1 table of %d entries", h.l1Entries)
	case !h.placed(h.l1Offset, uint64(h.l1Entries)*8, fileBytes):
		return fmt.Errorf("qcow2 has its L1 table at an impossible offset %d", h.l1Offset)
	case refcountBytes == 0 || refcountBytes > max(qcow2MaxRefcountBytes, h.clusterBytes()):
		return fmt.Errorf("qcow2 has an impossible refcount table of %d clusters", h.refcountClusters)
	case !h.placed(h.refcountOffset, refcountBytes, fileBytes):
		return fmt.Errorf("qcow2 has its refcount table at an impossible offset %d", h.refcountOffset)
	case h.snapshots > qcow2MaxSnapshots:
		return fmt.Errorf("qcow2 has an impossible number of snapshots, %d", h.snapshots)
	case h.snapshots > 0 && !h.placed(h.snapshotsOffset, 1, fileBytes):
		return fmt.Errorf("qcow2 has its snapshot table at an impossible offset %d", h.snapshotsOffset)
	}
	return nil
}

func (h qcow2Header) clusterBytes() uint64 { return 1 << h.clusterBits }

// neededL1 is how many L1 entries a disk of this size needs: an L2 table is one
// cluster of entries of 8 bytes (16 with extended entries), each for one cluster.
func (h qcow2Header) neededL1() uint64 {
	entryBits := uint32(3)
	if h.incompatible&qcow2ExtendedL2 != 0 {
		entryBits = 4
	}
	perL1 := uint64(1) << (2*h.clusterBits - entryBits)
	return (h.virtualBytes + perL1 - 1) / perL1
}

// placed reports whether a table may lie at offset: on a cluster, behind the
// header's cluster, and within the file when its length is known.
func (h qcow2Header) placed(offset, size uint64, fileBytes int64) bool {
	if offset == 0 || offset%h.clusterBytes() != 0 || offset > 1<<56 {
		return false
	}
	return fileBytes == 0 || offset+size <= uint64(fileBytes)
}
