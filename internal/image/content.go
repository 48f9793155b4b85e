package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// errClosed is why a content's own requests end when it is closed.
var errClosed = errors.New("content closed")

// facts are what the head of an image tells.
type facts struct {
	// compression is "" for a content that is stored as it comes.
	compression string
	format      string
	// sourceBytes is the length of the file that is served.
	sourceBytes int64
	// lengthBytes is the content's length in the pool; 0 when compressed: nothing
	// but decompressing it tells.
	lengthBytes int64
	// virtualBytes is the size of the disk; 0 for a compressed raw disk.
	virtualBytes int64
	// poolBytes is what it takes in the pool at most.
	poolBytes int64
}

// content is an image's bytes as they will lie in the pool, with everything
// checked that can be: the source's answer and the head on open, length and
// checksum in finish. Reads are safe beside close.
type content struct {
	facts
	op     string
	cancel context.CancelCauseFunc
	stream *stream

	mu      sync.Mutex // held by a Read
	reader  io.Reader
	release func()
	count   int64
	err     error
}

// open begins to read img. lengthBytes is what the content's length is known to
// be from an earlier reading, else 0. The caller closes what it gets.
func (s *source) open(ctx context.Context, img instance.Image, p *progress, lengthBytes int64) (*content, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &content{op: downloadOp(img), cancel: cancel, stream: s.newStream(ctx, img, p), release: func() {}}
	if err := c.inspect(img, lengthBytes); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// inspect reads the head, sets up decompression and learns the facts.
func (c *content) inspect(img instance.Image, lengthBytes int64) error {
	head, err := readHead(c.stream)
	if err != nil {
		return err
	}
	c.reader = io.MultiReader(bytes.NewReader(head), c.stream)
	c.sourceBytes = c.stream.at.total
	c.lengthBytes = c.sourceBytes
	limit := limitOf(img)
	if c.compression = compressionOf(head); c.compression != "" {
		c.lengthBytes = lengthBytes
		unpacked, release, err := decompress(c.compression, c.reader, limit)
		if err != nil {
			return c.classify(err)
		}
		c.release = release
		if head, err = readHead(unpacked); err != nil {
			return c.classify(err)
		}
		c.reader = io.MultiReader(bytes.NewReader(head), unpacked)
	}
	if c.format, c.virtualBytes, err = detect(head, img.Format, c.lengthBytes); err != nil {
		return &instance.Error{Reason: instance.ReasonImageInvalid, Op: c.op, Err: err}
	}
	c.poolBytes = c.lengthBytes
	if c.compression != "" && c.lengthBytes == 0 {
		c.poolBytes = limit
		if c.virtualBytes > 0 {
			c.poolBytes = c.virtualBytes
		}
	}
	return nil
}

// readHead reads up to headBytes; a shorter content is no error here.
func readHead(r io.Reader) ([]byte, error) {
	head := make([]byte, headBytes)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return head[:n], nil
}

func limitOf(img instance.Image) int64 {
	if img.DecompressLimitBytes > 0 {
		return img.DecompressLimitBytes
	}
	return defaultDecompressLimit
}

// Read implements io.Reader with classified errors.
func (c *content) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	if len(p) > chunkBytes {
		p = p[:chunkBytes]
	}
	n, err := c.reader.Read(p)
	c.count += int64(n)
	if err != nil {
		c.err = c.classify(err)
	}
	return n, c.err
}

// classify tells whose fault a failed read is: the source's, which the stream
// has classified, or the compressed content's.
func (c *content) classify(err error) error {
	if src := c.stream.err; src != nil && !errors.Is(src, io.EOF) {
		return src
	}
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	e := &instance.Error{Reason: instance.ReasonImageInvalid, Op: c.op, Detail: "decompress " + c.compression, Err: err}
	if errors.Is(err, errExpandsTooFar) {
		e.Detail = fmt.Sprintf("decompress %s: more than %d bytes", c.compression, limitOf(c.stream.img))
	}
	return e
}

// measure reads the content to its end and returns its length.
func (c *content) measure() (int64, error) {
	buf := make([]byte, chunkBytes)
	for {
		if _, err := c.Read(buf); err != nil {
			if errors.Is(err, io.EOF) {
				return c.count, c.finish()
			}
			return 0, err
		}
	}
}

// finish checks, once everything was read, that this was the end, on both sides
// of a decompression, and that the checksum is right.
func (c *content) finish() error {
	var probe [1]byte
	for {
		n, err := c.Read(probe[:])
		if n > 0 {
			return &instance.Error{Reason: instance.ReasonDownloadFailed, Op: c.op, Detail: "content is longer than when it was measured", Err: errRestart}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, err := c.stream.Read(probe[:]); n > 0 {
		return &instance.Error{Reason: instance.ReasonImageInvalid, Op: c.op, Detail: "data after the end of the " + c.compression + " file"}
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return c.stream.verify()
}

// failure is what ended a reading, nil when it was not the content: an upload
// that fails for the reader's sake reports the reader.
func (c *content) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err == nil, errors.Is(c.err, errClosed):
		return nil
	case !errors.Is(c.err, io.EOF):
		return c.err
	case c.count < c.lengthBytes:
		return &instance.Error{Reason: instance.ReasonDownloadFailed, Op: c.op, Detail: "content is shorter than when it was measured", Err: errRestart}
	default:
		return nil
	}
}

// close ends the reading: a blocked Read returns, then everything is freed. It
// may be called more than once.
func (c *content) close() {
	c.cancel(errClosed)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream.drop()
	c.release()
	c.release = func() {}
	if c.err == nil {
		c.err = &instance.Error{Reason: instance.ReasonCancelled, Op: c.op, Err: errClosed}
	}
}
