package libvirtx

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
)

// busy counts the uploads that are at it, each of which takes a minute.
type busy struct {
	mu      sync.Mutex
	now     int
	highest int
}

func (b *busy) upload(r io.Reader) error {
	b.mu.Lock()
	b.now++
	b.highest = max(b.highest, b.now)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.now--
	}()
	time.Sleep(30 * time.Second)
	_, err := io.Copy(io.Discard, r)
	return err
}

func TestBuffers_boundTransfersOfAllLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at busy
		buffers := NewBuffers(2*transferBytes + 1)
		content := bytes.Repeat([]byte("x"), sharedTransferBytes+1)
		send := func(ctx context.Context, l *Link, n int) error {
			return l.Backend().StorageVolUpload(ctx, libvirt.StorageVol{}, bytes.NewReader(content[:n]), 0, uint64(n))
		}
		links := make([]*Link, 3)
		for i := range links {
			links[i] = newTestLink(t, LinkOptions{Buffers: buffers, Connector: &fakeConnector{next: func(context.Context, int) (Conn, error) {
				return uploader{newFakeConn(nil), at.upload}, nil
			}}})
		}
		var wg sync.WaitGroup
		for _, l := range links {
			for range 2 {
				wg.Go(func() {
					if err := send(t.Context(), l, len(content)); err != nil {
						t.Error(err)
					}
				})
			}
		}
		time.Sleep(time.Second)
		// A caller who waits leaves when it wants to, and a small one does not wait.
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := send(impatient, links[0], len(content)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an impatient upload: got %v, want its deadline", err)
		}
		began := time.Now()
		if err := send(t.Context(), links[0], 10); err != nil || time.Since(began) != 30*time.Second {
			t.Errorf("a small upload: got %v after %v, want none after 30s", err, time.Since(began))
		}
		wg.Wait()
		if at.highest > 3 { // two large ones and the small one
			t.Errorf("got %d uploads at once, want 2 large ones and a small one", at.highest)
		}
	})
}

func TestBuffers_waitEndsWithTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buffers := NewBuffers(0)
		giveBack, err := buffers.take(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer giveBack()
		l := newTestLink(t, LinkOptions{Buffers: buffers, Connector: always(nil)})
		failed := make(chan error, 1)
		go func() {
			n := sharedTransferBytes + 1
			failed <- l.Backend().StorageVolUpload(t.Context(), libvirt.StorageVol{}, bytes.NewReader(make([]byte, n)), 0, uint64(n))
		}()
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-failed; !errors.Is(err, errClosed) {
			t.Errorf("got %v, want errClosed", err)
		}
	})
}
