package image

import (
	"context"
	"errors"
	"io"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func TestCheckPoolSpace_belowNeededIsQuota(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, 3*mib)
	img := imageOf(content)
	needed := int64(len(content)) + testDisk + 16*mib
	for _, tt := range []struct {
		name string
		free int64
		disk int64
		want instance.Reason
	}{
		{"one byte short", needed - 1, testDisk, instance.ReasonPoolFull},
		{"exactly enough", needed, testDisk, ""},
		{"disk as large as the image, short", int64(len(content)) + testVirtual + 16*mib - 1, 0, instance.ReasonPoolFull},
		{"disk as large as the image", int64(len(content)) + testVirtual + 16*mib, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := newMemPool(testHost)
			pool.setFree(tt.free)
			k := newKit(t, pool, &site{content: content})
			_, err := k.cache.Ensure(t.Context(), testHost, img, tt.disk)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantReason(t, err, tt.want)
			if !errors.Is(err, instance.QuotaExceeded) {
				t.Errorf("got kind %s, want QuotaExceeded", instance.ReasonOf(err).Kind())
			}
			if got := pool.writes(); len(got) != 0 {
				t.Errorf("got writes %v, want none", got)
			}
		})
	}
}

// With the image there, only the disk and the seed need room.
func TestCheckPoolSpace_cachedImageIsNotCounted(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, 3*mib)
	pool, img := newMemPool(testHost), imageOf(content)
	k := newKit(t, pool, &site{content: content})
	k.mustEnsure(t, img)
	pool.setFree(testDisk + 16*mib)
	k.mustEnsure(t, img)
	pool.setFree(testDisk + 16*mib - 1)
	for _, cache := range []*Cache{k.cache, newKit(t, pool, k.site).cache} {
		_, err := cache.Ensure(t.Context(), testHost, img, testDisk)
		wantReason(t, err, instance.ReasonPoolFull)
	}
}

func TestEnsureImage_diskSmallerThanImageIsPermanent(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	pool, img := newMemPool(testHost), imageOf(content)
	k := newKit(t, pool, &site{content: content})
	for _, state := range []string{"absent", "ready"} {
		_, err := k.cache.Ensure(t.Context(), testHost, img, testVirtual-1)
		wantReason(t, err, instance.ReasonDiskTooSmall)
		if state == "absent" && len(pool.writes()) != 0 {
			t.Errorf("got writes %v, want none", pool.writes())
		}
		k.mustEnsure(t, img)
	}
	if _, err := k.cache.Ensure(t.Context(), testHost, img, testVirtual); err != nil {
		t.Errorf("a disk of exactly the image's size: %v", err)
	}
}

// A pool that fills up in mid-transfer is a matter of quota, leaves nothing, and
// does for the next create once there is room.
func TestEnsureImage_poolFullInMidTransfer(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, 3*mib)
	pool, img := newMemPool(testHost), imageOf(content)
	k := newKit(t, pool, &site{content: content})
	pool.plant(func(call, _ string, done bool) error {
		if call == "CreateVolume" && done {
			pool.setFree(2 * mib)
		}
		return nil
	})
	_, err := k.ensure(t.Context(), img)
	wantReason(t, err, instance.ReasonPoolFull)
	if got := pool.names(); len(got) != 0 {
		t.Errorf("got volumes %v, want none", got)
	}
	pool.plant(nil)
	pool.setFree(1 << 40)
	k.mustEnsure(t, img)
	wantClean(t, pool, img, content)
}

// A pool that refuses once it has taken the last byte is to blame, not the
// source: its reason is told, and nothing is fetched again for it.
func TestEnsureImage_poolFullAfterTheLastByte(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	pool, s := newMemPool(testHost), &site{content: content}
	k := newKit(t, pool, s, func(o *Options) {
		o.Pool = func(string) (Pool, bool) { return greedyPool{pool}, true }
	})
	_, err := k.ensure(t.Context(), imageOf(content))
	wantReason(t, err, instance.ReasonPoolFull)
	if got := s.requestCount(); got != 2 {
		t.Errorf("got %d requests, want 2: a look at the head, and the download", got)
	}
}

// greedyPool reads what it is sent to the end, and has no room for it then.
type greedyPool struct{ *memPool }

func (p greedyPool) Upload(_ context.Context, _ string, src io.Reader, _ int64) error {
	if _, err := io.Copy(io.Discard, src); err != nil {
		return err
	}
	return p.fail(instance.ReasonPoolFull, "upload volume", errPlanted)
}
