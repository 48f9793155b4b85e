package sim

import (
	"bytes"
	"encoding/binary"
)

// The fields of a qcow2 header that matter here, by their offsets.
const (
	qcow2Magic          = "QFI\xfb"
	qcow2BackingFormat  = 0xE2792ACA
	qcow2HeaderV2       = 72
	qcow2HeaderV3       = 104
	offVersion          = 4
	offBacking          = 8
	offBackingLength    = 16
	offClusterBits      = 20
	offVirtualSize      = 24
	offL1Size           = 36
	offL1Table          = 40
	offRefcountTable    = 48
	offRefcountClusters = 56
	offRefcountOrder    = 96
	offHeaderLength     = 100

	// qcow2EmptyBytes and qcow2EmptyAllocation are an empty volume's length and
	// what it takes on disk.
	qcow2EmptyBytes      = 196616
	qcow2EmptyAllocation = 200704
	// qcow2WrittenBytes is its length after the first write.
	qcow2WrittenBytes = 393216
)

// isoMagic stands at isoMagicAt in an ISO 9660 image.
const (
	isoMagic   = "CD001"
	isoMagicAt = 32769
)

// qcow2Header makes the header of an empty image, an overlay when backing is
// not "". Version is 2 (compat 0.10) or 3 (1.1).
func qcow2Header(version uint32, virtual uint64, backing, backingFormat string) []byte {
	length := qcow2HeaderV2
	if version >= 3 {
		length = qcow2HeaderV3
	}
	b := make([]byte, length)
	copy(b, qcow2Magic)
	binary.BigEndian.PutUint32(b[offVersion:], version)
	binary.BigEndian.PutUint32(b[offClusterBits:], 16)
	binary.BigEndian.PutUint64(b[offVirtualSize:], virtual)
	binary.BigEndian.PutUint32(b[offL1Size:], uint32(virtual>>29)+1)
	binary.BigEndian.PutUint64(b[offL1Table:], 3<<16)
	binary.BigEndian.PutUint64(b[offRefcountTable:], 1<<16)
	binary.BigEndian.PutUint32(b[offRefcountClusters:], 1)
	if version >= 3 {
		binary.BigEndian.PutUint32(b[offRefcountOrder:], 4)
		binary.BigEndian.PutUint32(b[offHeaderLength:], uint32(length))
	}
	if backing == "" {
		return append(b, make([]byte, 8)...)
	}
	if backingFormat != "" {
		b = binary.BigEndian.AppendUint32(b, qcow2BackingFormat)
		b = binary.BigEndian.AppendUint32(b, uint32(len(backingFormat)))
		b = append(b, backingFormat...)
		b = append(b, make([]byte, (8-len(backingFormat)%8)%8)...)
	}
	b = append(b, make([]byte, 8)...)
	binary.BigEndian.PutUint64(b[offBacking:], uint64(len(b)))
	binary.BigEndian.PutUint32(b[offBackingLength:], uint32(len(backing)))
	return append(b, backing...)
}

// probed is what libvirt learns of a file by looking into it.
type probed struct {
	format   string
	capacity uint64
	version  uint32
	backing  string
	// backingFormat is "" where the header does not say.
	backingFormat string
}

// probe looks into the first bytes of a file of size bytes.
func probe(head []byte, size uint64) probed {
	switch {
	case len(head) >= qcow2HeaderV2 && string(head[:4]) == qcow2Magic:
		p := probed{
			format:   "qcow2",
			version:  binary.BigEndian.Uint32(head[offVersion:]),
			capacity: binary.BigEndian.Uint64(head[offVirtualSize:]),
		}
		at := binary.BigEndian.Uint64(head[offBacking:])
		n := uint64(binary.BigEndian.Uint32(head[offBackingLength:]))
		if at > 0 && n < 1024 && at < uint64(len(head)) && at+n <= uint64(len(head)) {
			p.backing = string(head[at : at+n])
			p.backingFormat = probeBackingFormat(head, p.version, at)
		}
		return p
	case len(head) >= isoMagicAt+len(isoMagic) && bytes.HasPrefix(head[isoMagicAt:], []byte(isoMagic)):
		return probed{format: "iso", capacity: size}
	default:
		return probed{format: "raw", capacity: size}
	}
}

// probeBackingFormat walks the header extensions before end.
func probeBackingFormat(head []byte, version uint32, end uint64) string {
	at := uint64(qcow2HeaderV2)
	if version >= 3 && len(head) >= qcow2HeaderV3 {
		at = uint64(binary.BigEndian.Uint32(head[offHeaderLength:]))
	}
	for at+8 <= end && at+8 <= uint64(len(head)) {
		kind := binary.BigEndian.Uint32(head[at:])
		n := uint64(binary.BigEndian.Uint32(head[at+4:]))
		if kind == 0 || at+8+n > end || at+8+n > uint64(len(head)) {
			break
		}
		if kind == qcow2BackingFormat {
			return string(head[at+8 : at+8+n])
		}
		at += 8 + (n+7)/8*8
	}
	return ""
}
