package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

const (
	// wholeBytes is up to which size a file's bytes are all kept: seeds, markers,
	// console logs.
	wholeBytes = 1 << 20
	// headBytes is what is kept of a larger file.
	headBytes = 64 << 10
	// blockBytes is the unit of allocation.
	blockBytes = 4096
)

// content is a file's bytes: all of a small file, of a large one the head, the
// length, and a checksum as long as it was written from start to end.
type content struct {
	size uint64
	head []byte
	// lost is set once bytes behind head were not kept; until then they are zeros.
	lost   bool
	sum    hash.Hash
	summed uint64
	// disordered is set once it was not written front to back.
	disordered bool
}

// write puts p at offset off.
func (c *content) write(off uint64, p []byte) {
	end := off + uint64(len(p))
	c.size = max(c.size, end)
	c.addToSum(off, p)
	limit := uint64(headBytes)
	if c.size <= wholeBytes {
		limit = wholeBytes
	}
	if off < limit {
		kept := p[:min(uint64(len(p)), limit-off)]
		if need := off + uint64(len(kept)); need > uint64(len(c.head)) {
			c.head = append(c.head, make([]byte, need-uint64(len(c.head)))...)
		}
		copy(c.head[off:], kept)
	}
	if uint64(len(c.head)) > limit {
		c.head = append([]byte(nil), c.head[:limit]...)
		c.lost = true
	}
	if end > limit {
		c.lost = true
	}
}

func (c *content) addToSum(off uint64, p []byte) {
	switch {
	case off == 0:
		c.sum, c.summed, c.disordered = sha256.New(), 0, false
	case off != c.summed || c.sum == nil:
		c.disordered = true
	}
	if !c.disordered {
		_, _ = c.sum.Write(p) // a hash does not fail
		c.summed += uint64(len(p))
	}
}

// sha256 is the hex checksum of the whole, "" when it is not known.
func (c *content) sha256() string {
	if c.disordered || c.sum == nil || c.summed != c.size {
		return ""
	}
	return hex.EncodeToString(c.sum.Sum(nil))
}

// read fills p from off, with zeros for what was not kept.
func (c *content) read(off uint64, p []byte) int {
	if off >= c.size {
		return 0
	}
	p = p[:min(uint64(len(p)), c.size-off)]
	clear(p)
	if off < uint64(len(c.head)) {
		copy(p, c.head[off:])
	}
	return len(p)
}

// whole returns all bytes, false when they were not kept.
func (c *content) whole() ([]byte, bool) {
	if c.lost {
		return nil, false
	}
	if c.size > wholeBytes {
		return nil, false
	}
	b := make([]byte, c.size)
	copy(b, c.head)
	return b, true
}
