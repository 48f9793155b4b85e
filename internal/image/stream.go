package image

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const (
	// chunkBytes bounds one read: what travels to the host in one packet.
	chunkBytes = 256 << 10

	firstPause = 250 * time.Millisecond
	maxPause   = 5 * time.Second
)

// stream reads a source from its first byte to its last, over as many
// connections as it takes, and counts and hashes what passes. It is for one
// reader at a time.
type stream struct {
	img      instance.Image
	progress *progress
	stall    time.Duration
	resumes  int

	// connect opens a connection at a position; pause waits, false when the
	// download ends meanwhile; why tells of that end, nil while there is none.
	connect func(from position, wait time.Duration) (*connection, error)
	pause   func(time.Duration) bool
	why     func() error

	conn *connection
	at   position
	sum  hash.Hash
	// connects counts requests; idle is how long no byte has come.
	connects int
	idle     time.Duration
	lastCut  error
	err      error
}

// newStream makes a stream that ends with ctx. It does no I/O.
func (s *source) newStream(ctx context.Context, img instance.Image, p *progress) *stream {
	return &stream{
		img: img, progress: p, stall: s.stall, resumes: s.resumes, sum: newHash(img),
		connect: func(from position, wait time.Duration) (*connection, error) {
			return s.connect(ctx, img, from, wait)
		},
		pause: func(d time.Duration) bool {
			timer := time.NewTimer(d)
			defer timer.Stop()
			select {
			case <-timer.C:
				return true
			case <-ctx.Done():
				return false
			}
		},
		why: func() error { return context.Cause(ctx) },
	}
}

// newHash is that of the configured checksum; sha256 without one.
func newHash(img instance.Image) hash.Hash {
	if img.SHA512 != "" {
		return sha512.New()
	}
	return sha256.New()
}

// Read implements io.Reader. Its errors are *instance.Error without a host.
func (s *stream) Read(p []byte) (int, error) {
	if len(p) > chunkBytes {
		p = p[:chunkBytes]
	}
	for s.err == nil {
		if s.conn != nil && s.at.offset == s.at.total {
			s.drop()
			s.err = io.EOF
			break
		}
		if s.conn == nil {
			if s.err = s.reconnect(); s.err != nil {
				break
			}
		}
		n, err := s.readOnce(p)
		if err != nil {
			s.cut(err)
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, s.err
}

// readOnce reads from the open connection, at most until the stall limit.
func (s *stream) readOnce(p []byte) (int, error) {
	if left := s.at.total - s.at.offset; int64(len(p)) > left {
		p = p[:left] // whatever else the source may send
	}
	begun := time.Now()
	conn := s.conn // the stream may have dropped it when the clock runs out
	watchdog := time.AfterFunc(s.stall-s.idle, func() { conn.cancel(errStalled) })
	n, err := conn.body.Read(p)
	watchdog.Stop()
	if n == 0 {
		s.idle += time.Since(begun)
	} else {
		s.idle = 0
		_, _ = s.sum.Write(p[:n]) // never fails
		s.at.offset += int64(n)
		s.progress.add(n)
	}
	return n, err
}

// cut notes that the connection ended, at the end of the content or before it.
func (s *stream) cut(err error) {
	if s.at.offset == s.at.total {
		return // Read sees the end
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	s.lastCut = safeCause(err)
	s.drop()
}

func (s *stream) drop() {
	if s.conn != nil {
		s.conn.close()
		s.conn = nil
	}
}

// reconnect opens the first connection or, after a pause, one for the rest,
// until one opens, an answer says it is no use, or a limit is reached.
func (s *stream) reconnect() error {
	for {
		if err := s.mayConnect(); err != nil {
			return err
		}
		begun := time.Now()
		if s.connects > 0 && !s.pause(min(pauseBefore(s.connects), s.stall-s.idle)) {
			return s.ended()
		}
		s.connects++
		s.progress.connecting()
		wait := s.stall - s.idle - time.Since(begun)
		conn, err := s.connect(s.at, max(wait, 0))
		if err == nil {
			s.idle += time.Since(begun)
			s.conn = conn
			s.at.total, s.at.validator = conn.total, conn.validator
			return nil
		}
		s.idle += time.Since(begun)
		if s.why() != nil {
			return s.ended()
		}
		final := instance.ReasonOf(err) != instance.ReasonDownloadFailed || errors.Is(err, errRestart)
		if final || s.connects > s.resumes {
			return err
		}
		s.lastCut = err
	}
}

// mayConnect checks the limits before one more request.
func (s *stream) mayConnect() error {
	switch {
	case s.why() != nil:
		return s.ended()
	case s.idle >= s.stall:
		return s.failed("no bytes for %v", s.stall)
	case s.connects > s.resumes:
		return s.failed("cut %d times, last at byte %d of %d", s.connects, s.at.offset, s.at.total)
	case s.at.offset > 0 && s.at.validator.empty() && !hasChecksum(s.img):
		// Nothing would tell the rest of another version from the rest of this one.
		return s.restart("cut at byte %d of %d, and the source offers nothing to resume by", s.at.offset, s.at.total)
	}
	return nil
}

func hasChecksum(img instance.Image) bool { return img.SHA256 != "" || img.SHA512 != "" }

// pauseBefore is how long to wait before request number n (counted from 0):
// doubling, with jitter, bounded.
func pauseBefore(n int) time.Duration {
	d := maxPause
	if n <= 5 {
		d = min(firstPause<<(n-1), maxPause)
	}
	return d/2 + rand.N(d/2+1)
}

func (s *stream) failed(format string, args ...any) error {
	return &instance.Error{
		Reason: instance.ReasonDownloadFailed, Op: downloadOp(s.img), Detail: fmt.Sprintf(format, args...), Err: s.lastCut,
	}
}

func (s *stream) restart(format string, args ...any) error {
	return &instance.Error{
		Reason: instance.ReasonDownloadFailed, Op: downloadOp(s.img), Detail: fmt.Sprintf(format, args...), Err: errRestart,
	}
}

// ended is the error of a download that was ended from outside.
func (s *stream) ended() error {
	why := s.why()
	return &instance.Error{Reason: instance.ReasonOf(why), Op: downloadOp(s.img), Err: why}
}

// resumed reports whether the content came over more than one connection.
func (s *stream) resumed() bool { return s.connects > 1 }

// verify holds what was read against the configured checksum. A content that
// was put together from several answers gets a second chance from the start.
func (s *stream) verify() error {
	want, algorithm := s.img.SHA256, "sha256"
	if s.img.SHA512 != "" {
		want, algorithm = s.img.SHA512, "sha512"
	}
	got := hex.EncodeToString(s.sum.Sum(nil))
	switch {
	case want == "" || got == want:
		return nil
	case s.resumed():
		return s.restart("%s does not match after a resume", algorithm)
	default:
		return &instance.Error{
			Reason: instance.ReasonChecksumMismatch, Op: downloadOp(s.img),
			Detail: fmt.Sprintf("%s is %s, configured is %s", algorithm, got, want),
		}
	}
}
