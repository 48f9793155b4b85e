package libvirtx

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// uploader is a connection that keeps what is uploaded, read as take reads it.
type uploader struct {
	*fakeConn
	take func(io.Reader) error
}

func (u uploader) StorageVolUpload(_ context.Context, _ libvirt.StorageVol, src io.Reader, _, _ uint64) error {
	return u.take(src)
}

func uploadLink(t *testing.T, take func(*fakeConn, io.Reader) error) *Link {
	t.Helper()
	return newTestLink(t, LinkOptions{Connector: &fakeConnector{next: func(context.Context, int) (Conn, error) {
		c := newFakeConn(nil)
		return uploader{c, func(r io.Reader) error { return take(c, r) }}, nil
	}}})
}

func TestUpload_sendsExactlyLength(t *testing.T) {
	content := make([]byte, 3*chunkBytes+17)
	if _, err := rand.Read(content); err != nil {
		t.Fatal(err)
	}
	sourceBroke := errors.New("reset by the mirror")
	short := int64(chunkBytes + 5)
	for name, row := range map[string]struct {
		src    io.Reader
		length int
		want   error
	}{
		"exact":               {bytes.NewReader(content), len(content), nil},
		"one byte at a time":  {iotest.OneByteReader(bytes.NewReader(content[:100])), 100, nil},
		"data with EOF":       {iotest.DataErrReader(bytes.NewReader(content)), len(content), nil},
		"nothing":             {bytes.NewReader(content), 0, nil},
		"longer is cut off":   {bytes.NewReader(content), 2*chunkBytes + 1, nil},
		"a whole chunk":       {bytes.NewReader(content), chunkBytes, nil},
		"short is an error":   {io.LimitReader(bytes.NewReader(content), short), len(content), io.ErrUnexpectedEOF},
		"empty is an error":   {bytes.NewReader(nil), 1, io.ErrUnexpectedEOF},
		"its error is ours":   {io.MultiReader(bytes.NewReader(content[:short]), iotest.ErrReader(sourceBroke)), len(content), sourceBroke},
		"an interrupted read": {iotest.TimeoutReader(bytes.NewReader(content)), len(content), iotest.ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			largest := 0
			l := uploadLink(t, func(_ *fakeConn, r io.Reader) error {
				buf := make([]byte, 4<<20)
				for {
					n, err := r.Read(buf)
					largest = max(largest, n)
					got.Write(buf[:n])
					if err == io.EOF {
						return nil
					}
					if err != nil {
						return err
					}
				}
			})
			err := l.Backend().StorageVolUpload(t.Context(), libvirt.StorageVol{}, row.src, 0, uint64(row.length))
			if !errors.Is(err, row.want) || (err == nil) != (row.want == nil) {
				t.Fatalf("got %v, want %v", err, row.want)
			}
			if largest > 256<<10 {
				t.Errorf("a packet of %d bytes, want at most 256 KiB", largest)
			}
			if err != nil {
				if _, ok := errors.AsType[*SourceError](err); !ok || Classify(err) != instance.ReasonDownloadFailed {
					t.Errorf("got %T (%s), want a SourceError (DownloadFailed)", err, Classify(err))
				}
				return
			}
			if !bytes.Equal(got.Bytes(), content[:row.length]) {
				t.Errorf("got %d bytes that differ from the %d given", got.Len(), row.length)
			}
		})
	}
}

func TestUpload_sourceKeepsItsReason(t *testing.T) {
	l := uploadLink(t, func(_ *fakeConn, r io.Reader) error { _, err := io.Copy(io.Discard, r); return err })
	src := iotest.ErrReader(instance.Errorf(instance.ReasonChecksumMismatch, "sha512 differs"))
	err := l.Backend().StorageVolUpload(t.Context(), libvirt.StorageVol{}, src, 0, 10)
	if got := Classify(err); got != instance.ReasonChecksumMismatch {
		t.Errorf("got %s, want ChecksumMismatch", got)
	}
}

func TestUpload_endsWithItsContextWhileTheSourceBlocks(t *testing.T) {
	for name, length := range map[string]uint64{"shared session": 100, "own session": sharedTransferBytes + 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				taken := make(chan error, 1)
				l := uploadLink(t, func(_ *fakeConn, r io.Reader) error {
					_, err := io.Copy(io.Discard, r)
					taken <- err
					return err
				})
				src, w := io.Pipe()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				err := l.Backend().StorageVolUpload(ctx, libvirt.StorageVol{}, src, 0, length)
				if got := time.Since(began); got != time.Second || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v after %v, want the deadline after 1s", err, got)
				}
				if err := <-taken; !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the host's reader ended with %v, want the deadline", err)
				}
				_ = w.Close() // the source's owner lets the pump go
			})
		})
	}
}

func TestUpload_refusedWhileTheSourceBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := libvirt.Error{Code: uint32(libvirt.ErrSystemError), Message: "No space left on device"}
		l := uploadLink(t, func(*fakeConn, io.Reader) error { return full })
		src, w := io.Pipe()
		err := l.Backend().StorageVolUpload(t.Context(), libvirt.StorageVol{}, src, 0, 1<<30)
		if answer, ok := errors.AsType[libvirt.Error](err); !ok || answer != full {
			t.Errorf("got %v, want the host's refusal", err)
		}
		_ = w.Close()
	})
}

func TestUpload_limits(t *testing.T) {
	for name, row := range map[string]struct {
		// every: how long the host takes for each chunk; chunks: how many there are.
		every  time.Duration
		chunks int
		limits Limits
		wantIn time.Duration
		wantOK bool
	}{
		"slow but moving":       {every: 50 * time.Second, chunks: 10, limits: Limits{Transfer: time.Hour}, wantOK: true},
		"no total limit":        {every: 50 * time.Second, chunks: 200, limits: Limits{}, wantOK: true},
		"stalled":               {every: 61 * time.Second, chunks: 10, limits: Limits{Transfer: time.Hour}, wantIn: 60 * time.Second},
		"past its total":        {every: 50 * time.Second, chunks: 100, limits: Limits{Transfer: 20 * time.Minute}, wantIn: 20 * time.Minute},
		"total below the stall": {every: 50 * time.Second, chunks: 2, limits: Limits{Transfer: 10 * time.Second}, wantIn: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTestLink(t, LinkOptions{Limits: row.limits, Connector: &fakeConnector{next: func(context.Context, int) (Conn, error) {
					c := newFakeConn(nil)
					return uploader{c, func(r io.Reader) error {
						buf := make([]byte, chunkBytes)
						for {
							if _, err := r.Read(buf); err == io.EOF {
								return nil
							} else if err != nil {
								return err
							}
							select {
							case <-time.After(row.every):
							case <-c.done:
								return libvirt.ErrInterrupted
							}
						}
					}}, nil
				}}})
				length := uint64(row.chunks * chunkBytes)
				began := time.Now()
				err := l.Backend().StorageVolUpload(t.Context(), libvirt.StorageVol{}, zeroes{}, 0, length)
				if row.wantOK {
					if err != nil {
						t.Errorf("got %v, want success", err)
					}
					return
				}
				wantTimeout(t, err)
				if got := time.Since(began); got != row.wantIn {
					t.Errorf("answered after %v, want %v", got, row.wantIn)
				}
			})
		})
	}
}

// slowSource takes its time for every byte, and fails with err after the last.
type slowSource struct {
	every time.Duration
	left  int
	err   error
}

func (s *slowSource) Read(p []byte) (int, error) {
	time.Sleep(s.every)
	if s.left == 0 {
		return 0, s.err
	}
	s.left--
	return copy(p, "x"), nil
}

// How slow a source may be is its own business: the stall limit is for the host.
func TestUpload_waitsForItsSource(t *testing.T) {
	tooSlow := errors.New("the source has limits of its own")
	for name, row := range map[string]struct {
		src    *slowSource
		limits Limits
		want   error
	}{
		"a byte at a time":     {&slowSource{every: 50 * time.Second, left: 100}, Limits{}, nil},
		"a long silence":       {&slowSource{every: 10 * time.Minute, left: 100}, Limits{}, nil},
		"silence, then a word": {&slowSource{every: 61 * time.Second, left: 1, err: tooSlow}, Limits{}, tooSlow},
		"past its total":       {&slowSource{every: 50 * time.Second, left: 100}, Limits{Transfer: 20 * time.Minute}, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTestLink(t, LinkOptions{Limits: row.limits, Connector: &fakeConnector{next: func(context.Context, int) (Conn, error) {
					return uploader{newFakeConn(nil), func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }}, nil
				}}})
				err := l.Backend().StorageVolUpload(t.Context(), libvirt.StorageVol{}, row.src, 0, 100)
				if errors.Is(row.want, context.DeadlineExceeded) {
					wantTimeout(t, err)
				} else if !errors.Is(err, row.want) {
					t.Errorf("got %v, want %v", err, row.want)
				}
			})
		})
	}
}

// downloader sends chunks until its connection is closed.
type downloader struct {
	*fakeConn
	send func(io.Writer) error
}

func (d downloader) StorageVolDownload(_ context.Context, _ libvirt.StorageVol, dst io.Writer, _, _ uint64) error {
	return d.send(dst)
}

func TestDownload_writerOfTheLibraryNeverFails(t *testing.T) {
	broken := errors.New("disk full over here")
	for name, row := range map[string]struct {
		dst  io.Writer
		want error
	}{
		"good": {new(bytes.Buffer), nil},
		"bad":  {failingWriter{broken}, broken},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTestLink(t, LinkOptions{Connector: &fakeConnector{next: func(context.Context, int) (Conn, error) {
				return downloader{newFakeConn(nil), func(w io.Writer) error {
					for range 3 {
						if n, err := w.Write([]byte("0123456789")); n != 10 || err != nil {
							t.Errorf("the library's writer: got %d, %v; want 10, nil", n, err)
						}
					}
					return nil
				}}, nil
			}}})
			err := l.Backend().StorageVolDownload(t.Context(), libvirt.StorageVol{}, row.dst, 0, 25)
			if !errors.Is(err, row.want) {
				t.Errorf("got %v, want %v", err, row.want)
			}
			if b, ok := row.dst.(*bytes.Buffer); ok && b.Len() != 25 {
				t.Errorf("got %d bytes, want 25", b.Len())
			}
		})
	}
}

func TestDownload_leavesDstAloneOnceItsCallerLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLink(t, LinkOptions{Connector: &fakeConnector{next: func(context.Context, int) (Conn, error) {
			c := newFakeConn(nil)
			return downloader{c, func(w io.Writer) error {
				for {
					select {
					case <-c.done:
						return libvirt.ErrInterrupted
					case <-time.After(time.Second):
						_, _ = w.Write([]byte("c"))
					}
				}
			}}, nil
		}}})
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		var dst bytes.Buffer
		err := l.Backend().StorageVolDownload(ctx, libvirt.StorageVol{}, &dst, 0, 1000)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		if got := dst.String(); got != "ccc" { // the race detector watches the rest
			t.Errorf("got %q, want what came in time", got)
		}
	})
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
