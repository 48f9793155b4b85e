package image

import (
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const (
	mib         = 1 << 20
	testVirtual = 2 << 30
)

func TestEnsureImage_downloadsAndWritesMarkerLast(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, 3*mib)
	pool, img := newMemPool(testHost), imageOf(content)
	k := newKit(t, pool, &site{content: content})

	base := k.mustEnsure(t, img)

	want := instance.Base{
		Image: "debian", Identity: identityOf(img), Volume: base.Volume, Path: poolDir + base.Volume, Format: "qcow2", VirtualBytes: testVirtual,
	}
	if diff := cmp.Diff(want, base); diff != "" {
		t.Errorf("base (-want +got):\n%s", diff)
	}
	marker := keyOf(testHost, img).marker()
	wantWrites := []string{"CreateVolume " + base.Volume, "Upload " + base.Volume, "CreateVolume " + marker}
	if diff := cmp.Diff(wantWrites, pool.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	wantClean(t, pool, img, content)
	if got := k.site.header(1).Get("Accept-Encoding"); got != "identity" {
		t.Errorf("got Accept-Encoding %q, want identity", got)
	}
}

func TestEnsureImage_sha512(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	sum := sha512.Sum512(content)
	img := instance.Image{Name: "debian", URL: testURL, SHA512: hex.EncodeToString(sum[:])}
	k := newKit(t, newMemPool(testHost), &site{content: content})
	k.mustEnsure(t, img)

	img.SHA512 = strings.Repeat("0", 128)
	_, err := k.ensure(t.Context(), img)
	wantReason(t, err, instance.ReasonChecksumMismatch)
}

func TestEnsureImage_cachedWithMarkerSkipsDownload(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	pool, img := newMemPool(testHost), imageOf(content)
	first := newKit(t, pool, &site{content: content})
	base := first.mustEnsure(t, img)

	s := &site{fault: status(http.StatusInternalServerError)}
	second := newKit(t, pool, s)
	for range 2 {
		if diff := cmp.Diff(base, second.mustEnsure(t, img)); diff != "" {
			t.Errorf("base (-want +got):\n%s", diff)
		}
	}
	if got := s.requestCount(); got != 0 {
		t.Errorf("got %d requests, want none", got)
	}
}

// Everything that a cached Ensure asks for is asked for at once: marker, base, room.
func TestEnsureImage_cachedIsOneRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := qcow2Bytes(t, testVirtual, mib)
		pool, img := newMemPool(testHost), imageOf(content)
		k := newKit(t, pool, &site{content: content})
		k.mustEnsure(t, img)
		synctest.Wait()
		before := pool.callCount()
		pool.plant(func(_, _ string, done bool) error {
			if !done {
				time.Sleep(20 * time.Millisecond)
			}
			return nil
		})
		begun := time.Now()
		k.mustEnsure(t, img)
		if got := time.Since(begun); got != 20*time.Millisecond {
			t.Errorf("got %v at 20ms a call, want one round trip", got)
		}
		if got := pool.callCount() - before; got != 3 {
			t.Errorf("got %d calls, want 3", got)
		}
		k.close(t)
	})
}

func TestEnsureImage_missingMarkerRedownloads(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	pool, img := newMemPool(testHost), imageOf(content)
	k := newKit(t, pool, &site{content: content})
	old := k.mustEnsure(t, img)
	pool.remove(keyOf(testHost, img).marker())

	base := k.mustEnsure(t, img)

	if base.Volume == old.Volume {
		t.Errorf("got the unmarked base %s again, want a new one", base.Volume)
	}
	if err := k.cache.Confirm(t.Context(), testHost, base); err != nil {
		t.Errorf("confirm: %v", err)
	}
}

// What the host says heals what is remembered, whatever was taken away.
func TestEnsureImage_healsWhatWasDeletedBehindOurBack(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	img := imageOf(content)
	for _, tt := range []struct {
		name   string
		remove func(pool *memPool, base instance.Base)
	}{
		{"base", func(p *memPool, b instance.Base) { p.remove(b.Volume) }},
		{"base and marker", func(p *memPool, b instance.Base) {
			p.remove(b.Volume)
			p.remove(keyOf(testHost, img).marker())
		}},
		{"marker points elsewhere", func(p *memPool, b instance.Base) {
			p.remove(b.Volume)
			p.put(instance.Volume{Name: keyOf(testHost, img).marker(), BackingPath: "/etc/passwd"})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := newMemPool(testHost)
			k := newKit(t, pool, &site{content: content})
			tt.remove(pool, k.mustEnsure(t, img))
			k.mustEnsure(t, img)
			wantClean(t, pool, img, content)
		})
	}
}

// A file that was removed without libvirt is found out by a refresh.
func TestEnsureImage_refreshesWhenReadFails(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	pool, img := newMemPool(testHost), imageOf(content)
	k := newKit(t, pool, &site{content: content})
	base := k.mustEnsure(t, img)
	refreshed := false
	pool.plant(func(call, name string, _ bool) error {
		switch {
		case call == "CheckSpace":
			refreshed = true
			pool.remove(base.Volume)
		case call == "Volume" && name == base.Volume && !refreshed:
			return pool.fail(instance.ReasonLibvirtError, "read volume", errPlanted)
		}
		return nil
	})
	fresh := newKit(t, pool, k.site)
	fresh.mustEnsure(t, img)
	wantClean(t, pool, img, content)
}

func TestEnsureImage_sha256ChangeRedownloads(t *testing.T) {
	old, changed := qcow2Bytes(t, testVirtual, mib), qcow2Bytes(t, testVirtual, 2*mib)
	pool, s := newMemPool(testHost), &site{content: old}
	k := newKit(t, pool, s)
	first := k.mustEnsure(t, imageOf(old))
	s.content = changed

	second := k.mustEnsure(t, imageOf(changed))

	if first.Identity == second.Identity || first.Volume == second.Volume {
		t.Fatalf("got %+v for both contents", second)
	}
	for _, base := range []instance.Base{first, second} {
		if err := k.cache.Confirm(t.Context(), testHost, base); err != nil {
			t.Errorf("confirm %s: %v", base.Volume, err)
		}
	}
}

func TestEnsureImage_sha256MismatchIsPermanentAndRemovesVolume(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	pool, img := newMemPool(testHost), imageOf(content)
	img.SHA256 = strings.Repeat("ab", 32)
	k := newKit(t, pool, &site{content: content})

	_, err := k.ensure(t.Context(), img)

	wantReason(t, err, instance.ReasonChecksumMismatch)
	if !errors.Is(err, instance.Permanent) {
		t.Errorf("got kind %s, want Permanent", instance.ReasonOf(err).Kind())
	}
	if got := pool.names(); len(got) != 0 {
		t.Errorf("got volumes %v, want none", got)
	}
}

// What a source answers decides the kind of the failure, and nothing is made in the pool.
func TestEnsureImage_sourceAnswers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(int, http.ResponseWriter, *http.Request) bool
		want   instance.Reason
	}{
		{"400", status(http.StatusBadRequest), instance.ReasonImageUnavailable},
		{"401", status(http.StatusUnauthorized), instance.ReasonImageUnavailable},
		{"403", status(http.StatusForbidden), instance.ReasonImageUnavailable},
		{"410", status(http.StatusGone), instance.ReasonImageUnavailable},
		{"408", status(http.StatusRequestTimeout), instance.ReasonDownloadFailed},
		{"429", status(http.StatusTooManyRequests), instance.ReasonDownloadFailed},
		{"500", status(http.StatusInternalServerError), instance.ReasonDownloadFailed},
		{"204", status(http.StatusNoContent), instance.ReasonImageUnavailable},
		{"partial content unasked", status(http.StatusPartialContent), instance.ReasonImageUnavailable},
		{"empty", status(http.StatusOK), instance.ReasonImageInvalid},
		{"gzip encoding", func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Length", "5")
			_, _ = w.Write([]byte("12345"))
			return true
		}, instance.ReasonImageUnavailable},
		{"HTML", func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			page := []byte("<!DOCTYPE html><html><body>Please log in</body></html>")
			w.Header().Set("Content-Length", "54")
			_, _ = w.Write(page)
			return true
		}, instance.ReasonImageInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := newMemPool(testHost)
			k := newKit(t, pool, &site{fault: tt.answer})
			_, err := k.ensure(t.Context(), imageOf(nil))
			wantReason(t, err, tt.want)
			if got := pool.writes(); len(got) != 0 {
				t.Errorf("got writes %v, want none", got)
			}
		})
	}
}

func TestEnsureImage_noContentLengthIsPermanent(t *testing.T) {
	pool := newMemPool(testHost)
	k := newKit(t, pool, &site{fault: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		_, _ = w.Write(qcow2Bytes(t, testVirtual, mib))
		return true
	}})
	_, err := k.ensure(t.Context(), imageOf(nil))
	if !errors.Is(err, instance.Permanent) || !strings.Contains(err.Error(), "Content-Length") {
		t.Errorf("got %v, want a permanent error that names Content-Length", err)
	}
	if got := pool.writes(); len(got) != 0 {
		t.Errorf("got writes %v, want none", got)
	}
}

func TestEnsureImage_http404IsPermanent(t *testing.T) {
	k := newKit(t, newMemPool(testHost), &site{fault: status(http.StatusNotFound)})
	_, err := k.ensure(t.Context(), imageOf(nil))
	wantReason(t, err, instance.ReasonImageUnavailable)
	if !errors.Is(err, instance.Permanent) {
		t.Errorf("got kind %s, want Permanent", instance.ReasonOf(err).Kind())
	}
}

func TestEnsureImage_http503IsTransient(t *testing.T) {
	k := newKit(t, newMemPool(testHost), &site{fault: status(http.StatusServiceUnavailable)})
	_, err := k.ensure(t.Context(), imageOf(nil))
	wantReason(t, err, instance.ReasonDownloadFailed)
	if !errors.Is(err, instance.Transient) {
		t.Errorf("got kind %s, want Transient", instance.ReasonOf(err).Kind())
	}
}

func TestEnsureImage_concurrentCallersFetchOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := qcow2Bytes(t, testVirtual, mib)
		pool, img := newMemPool(testHost), imageOf(content)
		s := &site{content: content}
		s.fault = func(int, http.ResponseWriter, *http.Request) bool {
			time.Sleep(time.Second)
			return false
		}
		k := newKit(t, pool, s)
		bases := make([]instance.Base, 50)
		var callers sync.WaitGroup
		for i := range bases {
			callers.Go(func() {
				time.Sleep(time.Duration(i) * 30 * time.Millisecond) // into the probe and the download
				bases[i] = k.mustEnsure(t, img)
			})
		}
		callers.Wait()
		for _, b := range bases {
			if diff := cmp.Diff(bases[0], b); diff != "" {
				t.Fatalf("bases differ (-first +other):\n%s", diff)
			}
		}
		if got := s.requestCount(); got != 2 {
			t.Errorf("got %d requests, want a probe and a download", got)
		}
		if got := len(pool.writes()); got != 3 {
			t.Errorf("got writes %v, want one download's", pool.writes())
		}
		k.close(t)
	})
}

// A caller leaves at once; the download goes on and serves the next.
func TestEnsureImage_cancelledMidStreamReturnsPromptly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := qcow2Bytes(t, testVirtual, mib)
		pool, img := newMemPool(testHost), imageOf(content)
		s := &site{content: content}
		s.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				return false
			}
			w.Header().Set("Content-Length", "1048576")
			_ = trickle(r.Context(), w, content, 10, 10*time.Second)
			return true
		}
		k := newKit(t, pool, s)
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		begun := time.Now()
		_, err := k.ensure(ctx, img)
		wantReason(t, err, instance.ReasonTimeout)
		if got := time.Since(begun); got != 35*time.Second {
			t.Errorf("left after %v, want 35s", got)
		}
		k.mustEnsure(t, img)
		if got := time.Since(begun); got != 100*time.Second {
			t.Errorf("the download took %v, want to have gone on for 100s", got)
		}
		wantClean(t, pool, img, content)
		k.close(t)
	})
}

// A large image passes through in bounded reads, none of it kept: the source is
// never further ahead of the pool than a chunk and the head.
func TestEnsureImage_streamsWithoutBuffering(t *testing.T) {
	const size = 32 * mib
	content := qcow2Bytes(t, testVirtual, size)
	pool, img := newMemPool(testHost), imageOf(content)
	pool.drain = true
	meter := &meter{}
	k := newKit(t, pool, &site{content: content}, withTransport(meteredWire{wire{&site{content: content}}, meter}))
	meter.stored = func() int64 {
		pool.mu.Lock()
		defer pool.mu.Unlock()
		for _, v := range pool.volumes {
			return v.PhysicalBytes
		}
		return 0
	}
	k.mustEnsure(t, img)
	if meter.largest > 256<<10 {
		t.Errorf("got a read of %d bytes, want at most 256 KiB", meter.largest)
	}
	if limit := int64(chunkBytes + headBytes); meter.ahead > limit {
		t.Errorf("the source was %d bytes ahead of the pool, want at most %d", meter.ahead, limit)
	}
}

func TestEnsureImage_unknownHost(t *testing.T) {
	k := newKit(t, newMemPool(testHost), &site{})
	_, err := k.cache.Ensure(t.Context(), "other", imageOf(nil), 0)
	if got := instance.ReasonOf(err); got != instance.ReasonHostNotConfigured {
		t.Errorf("got %v, want HostNotConfigured", err)
	}
}
