package image

import (
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// What goes wrong between the last byte and the marker leaves no marked base.
func TestEnsureImage_notMarkedWhenTheHostHasLess(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	for _, tt := range []struct {
		name   string
		damage func(pool *memPool, name string)
		want   instance.Reason
	}{
		{"volume removed", func(p *memPool, name string) { p.remove(name) }, instance.ReasonVanished},
		{"volume cut", func(p *memPool, name string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.volumes[name].PhysicalBytes--
		}, instance.ReasonDownloadFailed},
		{"another disk", func(p *memPool, name string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.volumes[name].CapacityBytes++
		}, instance.ReasonDownloadFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool, img := newMemPool(testHost), imageOf(content)
			k := newKit(t, pool, &site{content: content})
			pool.plant(func(call, name string, done bool) error {
				if call == "Upload" && done {
					tt.damage(pool, name)
				}
				return nil
			})
			_, err := k.ensure(t.Context(), img)
			wantReason(t, err, tt.want)
			if got := pool.names(); len(got) != 0 {
				t.Errorf("got volumes %v, want none", got)
			}
		})
	}
}

// When nobody can tell whether the marker was made, the base stays: machines
// may be built on it.
func TestEnsureImage_baseStaysWhenTheMarkIsUncertain(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	pool, img := newMemPool(testHost), imageOf(content)
	k := newKit(t, pool, &site{content: content})
	lost := false
	pool.plant(func(call, name string, done bool) error {
		if call == "CreateVolume" && strings.HasSuffix(name, markerSuffix) && done {
			lost = true
		}
		if lost {
			return pool.fail(instance.ReasonUnreachable, call, errPlanted)
		}
		return nil
	})
	_, err := k.ensure(t.Context(), img)
	wantReason(t, err, instance.ReasonUnreachable)
	k.close(t)
	wantClean(t, withoutFaults(pool), img, content)
}

func withoutFaults(pool *memPool) *memPool {
	pool.plant(nil)
	return pool
}

// A partial that cannot be removed is said to those who wait.
func TestEnsureImage_warnsOfAPartialThatStays(t *testing.T) {
	content := qcow2Bytes(t, testVirtual, mib)
	pool, img := newMemPool(testHost), imageOf(content)
	img.SHA256 = strings.Repeat("0", 64)
	k := newKit(t, pool, &site{content: content})
	pool.plant(func(call, _ string, _ bool) error {
		if call == "DeleteVolume" {
			return pool.fail(instance.ReasonUnreachable, call, errPlanted)
		}
		return nil
	})
	ctx, trail := instance.WithTrail(t.Context())
	_, err := k.ensure(ctx, img)
	wantReason(t, err, instance.ReasonChecksumMismatch)
	if _, warnings := trail.Read(); len(warnings) != 1 || !strings.Contains(warnings[0], "partial image volume kvm2-base.debian.") {
		t.Errorf("got warnings %q, want one of the partial", warnings)
	}
}
