package image

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// A length that no file has is not reckoned with: sums of it would overflow, and
// pass for little.
func TestEnsureImage_absurdContentLength(t *testing.T) {
	for _, length := range []int64{maxVirtualBytes + 1, 1 << 62, 1<<63 - 1} {
		for _, format := range []string{formatRaw, formatQCOW2} {
			t.Run(fmt.Sprintf("%s of %d bytes", format, length), func(t *testing.T) {
				content := rawBytes(mib)
				if format == formatQCOW2 {
					content = qcow2Bytes(t, testVirtual, mib)
				}
				pool := newMemPool(testHost)
				k := newKit(t, pool, &site{fault: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
					w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
					_, _ = w.Write(content)
					return true
				}})
				_, err := k.ensure(t.Context(), imageOf(content))
				wantReason(t, err, instance.ReasonImageInvalid)
				if got := pool.writes(); len(got) != 0 {
					t.Errorf("got writes %v, want none", got)
				}
			})
		}
	}
}

// A source that sends more than it has promised is read to the promise only,
// whatever it is that comes then: here one more gzip member after the other,
// which hold nothing.
func TestEnsureImage_endlessRest(t *testing.T) {
	disk := qcow2Bytes(t, testVirtual, mib)
	for _, tt := range []struct {
		name          string
		content, more []byte
	}{
		{"of a disk", disk, disk},
		{"of a compressed disk", pack(t, compressionGzip, disk), pack(t, compressionGzip, nil)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &site{content: tt.content, etag: `"a"`}
			total := int64(len(tt.content))
			s.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
				switch {
				case n == 2:
					s.serve(w, r, total/2)
				case r.Header.Get("Range") != "":
					w.Header().Set("ETag", s.etag)
					w.Header().Set("Content-Range", fmt.Sprintf("bytes %s%d/%d", strings.TrimPrefix(r.Header.Get("Range"), "bytes="), total-1, total))
					w.WriteHeader(http.StatusPartialContent)
					from, _ := strconv.Atoi(strings.Trim(r.Header.Get("Range"), "bytes=-"))
					_, err := w.Write(slices.Concat(tt.content[from:], tt.more))
					for err == nil {
						_, err = w.Write(tt.more)
					}
				default:
					return false
				}
				return true
			}
			pool, img := newMemPool(testHost), imageOf(tt.content)
			k := newKit(t, pool, s)
			k.mustEnsure(t, img)
			wantClean(t, pool, img, disk)
		})
	}
}

// An answer's head is taken up to what any honest one needs.
func TestEnsureImage_endlessHeader(t *testing.T) {
	taken := make(chan int, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		sent, _ := fmt.Fprint(buf, "HTTP/1.1 200 OK\r\n")
		for err == nil && sent < 64*mib {
			var n int
			n, err = fmt.Fprintf(buf, "X-%d: %s\r\n", sent, strings.Repeat("x", 1000))
			sent += n
		}
		taken <- sent
	}))
	defer server.Close()
	img := imageOf(nil)
	img.URL = server.URL
	k := newKit(t, newMemPool(testHost), &site{}, withTransport(newTransport()))
	_, err := k.ensure(t.Context(), img)
	wantReason(t, err, instance.ReasonDownloadFailed)
	// What the kernel buffers on the way is on top.
	if got := <-taken; got > 8*mib {
		t.Errorf("took %d bytes of header", got)
	}
}

// A decoder may take 64 MiB, so there are few at a time, however many downloads.
func TestEnsureImage_fewDecodersAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := qcow2Bytes(t, testVirtual, mib)
		packed := pack(t, compressionGzip, disk)
		var now, most atomic.Int32
		s := &site{content: packed}
		s.fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(time.Second)
			s.serve(w, r, int64(len(packed)))
			return true
		}
		k := newKit(t, newMemPool(testHost), s)
		var all sync.WaitGroup
		for i := range 3 * maxDecoders {
			img := imageOf(packed)
			img.Name = fmt.Sprintf("image-%d", i)
			all.Go(func() {
				if err := k.cache.Pull(t.Context(), testHost, img); err != nil {
					t.Errorf("pull: %v", err)
				}
				time.Sleep(time.Second) // past all probes, which come at once and go
				most.Store(0)
				k.mustEnsure(t, img)
			})
		}
		all.Wait()
		if got := most.Load(); got > maxDecoders {
			t.Errorf("got %d downloads at a time, want at most %d", got, maxDecoders)
		}
		k.close(t)
	})
}
