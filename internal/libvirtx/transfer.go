package libvirtx

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// chunkBytes is what one stream packet carries: through SSH, three times the
// throughput of the library's 4 MiB, and neighbours on the connection wait
// seven times less.
const chunkBytes = 256 << 10

// source is what the library reads an upload from: exactly length bytes of
// what a pump reads ahead, ending with the cause of ctx even while the pump is
// blocked.
type source struct {
	// done is closed when the transfer is to stop, for the reason that cause gives.
	done  <-chan struct{}
	cause func() error
	// wait and progress tell the clock for whom the transfer waits: for its
	// source, or for the host again.
	wait     func()
	progress func()
	filled   chan chunk
	free     chan []byte
	current  []byte
	whole    []byte
}

// chunk is what a pump read, or why it could not; whole is the buffer it is in.
type chunk struct {
	data, whole []byte
	err         error
}

// newSource starts a pump over src. It returns false when the session has ended.
func newSource(ctx context.Context, src io.Reader, length uint64, in inflight) (*source, bool) {
	s := &source{
		done:     ctx.Done(),
		cause:    func() error { return context.Cause(ctx) },
		wait:     in.wait,
		progress: in.progress,
		filled:   make(chan chunk, 2),
		free:     make(chan []byte, 2),
	}
	size := min(length, chunkBytes)
	s.free <- make([]byte, size)
	if length > size {
		s.free <- make([]byte, size)
	}
	return s, in.spawn(func() { s.pump(src, length) })
}

// pump reads ahead, by two chunks, until length bytes, an error or ctx's end.
func (s *source) pump(src io.Reader, left uint64) {
	defer close(s.filled)
	for left > 0 {
		var buf []byte
		select {
		case buf = <-s.free:
		case <-s.done:
			return
		}
		var n int
		err := instance.Guard(func() (err error) {
			n, err = io.ReadFull(src, buf[:min(left, uint64(len(buf)))])
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		})
		left -= uint64(n)
		c := chunk{data: buf[:n], whole: buf}
		if err != nil {
			c.err = &SourceError{Err: err}
		}
		// There is room: no more chunks are about than free held.
		s.filled <- c
		if err != nil {
			return
		}
	}
}

// Read hands on what the pump read. What precedes an error is not worth sending.
func (s *source) Read(p []byte) (int, error) {
	s.wait()
	defer s.progress()
	if len(s.current) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.current)
	s.current = s.current[n:]
	if len(s.current) == 0 {
		s.free <- s.whole
	}
	return n, nil
}

func (s *source) next() error {
	if err := s.cause(); err != nil {
		return err
	}
	select {
	case <-s.done:
		return s.cause()
	case c, more := <-s.filled:
		if !more {
			// The pump ends at the last byte, or because of cause.
			return cmp.Or(s.cause(), io.EOF)
		}
		if c.err != nil {
			return c.err
		}
		s.current, s.whole = c.data, c.whole
		return nil
	}
}

// upload sends length bytes of src. The library's sender may still be waiting
// for the source when the host has refused the rest; ending the source's
// context on return lets it go.
func upload(ctx context.Context, src io.Reader, length uint64, in inflight, send func(io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, ok := newSource(ctx, src, length, in)
	if !ok {
		return errNotSent
	}
	err := send(s)
	if errors.Is(err, errNotSent) {
		// Nothing arrived, but some of src is gone: nobody may try again with it.
		return libvirt.ErrInterrupted
	}
	return err
}

// sink is what the library writes a download to. It never fails and never
// writes to dst after stop, because the library locks up for good over a
// writer that fails, and a caller that left has taken dst back.
type sink struct {
	mu      sync.Mutex
	dst     io.Writer
	left    uint64
	stopped bool
	err     error
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.err != nil {
		return len(p), nil
	}
	keep := p[:min(uint64(len(p)), s.left)]
	s.left -= uint64(len(keep))
	_, s.err = s.dst.Write(keep)
	return len(p), nil
}

// stop waits for a write that is under way; none follows. It returns dst's error.
func (s *sink) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	return s.err
}

// progressWriter tells of every write.
type progressWriter struct {
	io.Writer
	progress func()
}

func (w progressWriter) Write(p []byte) (int, error) {
	w.progress()
	return w.Writer.Write(p)
}
