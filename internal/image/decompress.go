package image

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

const (
	compressionGzip = "gzip"
	compressionXZ   = "xz"
	compressionZstd = "zstd"

	// maxDictionaryBytes bounds a decoder's memory: what xz -9 and zstd --ultra
	// need at most without being asked for more.
	maxDictionaryBytes = 64 << 20

	// maxDecoders bounds the memory of all decoders, whatever images ask for.
	maxDecoders = 2

	// defaultDecompressLimit is what a compressed image may expand to when the
	// configuration does not say.
	defaultDecompressLimit = 8 << 30
)

// errExpandsTooFar: a compressed image holds more than its limit.
var errExpandsTooFar = errors.New("expands beyond the decompress limit")

// compressionOf tells a compression by its magic, "" for none we know.
func compressionOf(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b\x08")):
		return compressionGzip
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		return compressionXZ
	case bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")):
		return compressionZstd
	default:
		return ""
	}
}

// decompress returns src unpacked. Its reads fail with errExpandsTooFar past
// limit bytes. The caller calls release when done.
func decompress(compression string, src io.Reader, limit int64) (r io.Reader, release func(), err error) {
	release = func() {}
	switch compression {
	case compressionGzip:
		r, err = gzip.NewReader(src)
	case compressionXZ:
		r, err = xz.NewReader(src, maxDictionaryBytes)
	case compressionZstd:
		var d *zstd.Decoder
		d, err = zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxDictionaryBytes))
		if err == nil {
			r, release = d, d.Close
		}
	default:
		r = src
	}
	if err != nil {
		return nil, release, err
	}
	return &limitedReader{r: r, left: limit}, release, nil
}

// limitedReader is io.LimitReader with an error at the limit instead of an end:
// a content that was cut there must never pass for a whole one.
type limitedReader struct {
	r    io.Reader
	left int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
	// One byte more than allowed tells a content of exactly the limit from a longer one.
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	if l.left < 0 {
		return 0, errExpandsTooFar
	}
	return n, err
}
