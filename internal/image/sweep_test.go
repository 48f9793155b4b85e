package image

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const deadPartial = "kvm2-base.debian.0123456789ab.deadbeef.qcow2"

// What a killed daemon left is removed after the next contact, once it has not
// moved for two looks; nothing else ever is.
func TestSweep_table(t *testing.T) {
	for _, tt := range []struct {
		name string
		vols []instance.Volume
		// touch changes the pool before each look.
		touch func(pool *memPool)
		gone  bool
	}{
		{name: "dead", vols: []instance.Volume{{Name: deadPartial, PhysicalBytes: 5}}, gone: true},
		{name: "of an image that is not configured", vols: []instance.Volume{{Name: "kvm2-base.other.0123456789ab.deadbeef.raw"}}, gone: true},
		{name: "growing", vols: []instance.Volume{{Name: deadPartial, PhysicalBytes: 5}}, touch: func(p *memPool) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.volumes[deadPartial].PhysicalBytes++
		}},
		{name: "written in place", vols: []instance.Volume{{Name: deadPartial, PhysicalBytes: 5}}, touch: func(p *memPool) {
			p.mu.Lock()
			defer p.mu.Unlock()
			v := p.volumes[deadPartial]
			v.ModifiedAt = v.ModifiedAt.Add(time.Nanosecond)
		}},
		{name: "in use", vols: []instance.Volume{
			{Name: deadPartial, PhysicalBytes: 5},
			{Name: "kvm2.a.b.c.root.qcow2", BackingPath: poolDir + deadPartial},
		}},
		{name: "in use by a stranger", vols: []instance.Volume{
			{Name: deadPartial, PhysicalBytes: 5}, {Name: "vm.img", BackingPath: poolDir + deadPartial},
		}},
		{name: "marked", vols: []instance.Volume{
			{Name: deadPartial, PhysicalBytes: 5},
			{Name: "kvm2-base.debian.0123456789ab.marker.qcow2", BackingPath: poolDir + deadPartial},
		}},
		{name: "not ours", vols: []instance.Volume{{Name: "kvm2-base.debian.iso"}, {Name: "debian.qcow2"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := newMemPool(testHost)
				for _, v := range tt.vols {
					pool.put(v)
				}
				k := newKit(t, pool, &site{fault: status(http.StatusNotFound)})
				_, _ = k.ensure(t.Context(), imageOf(nil))
				synctest.Wait()
				for look := range 8 {
					if look <= 1 && !slices.Contains(pool.names(), tt.vols[0].Name) {
						t.Errorf("removed after %d looks", look+1)
					}
					if tt.touch != nil {
						tt.touch(pool)
					}
					time.Sleep(testStall)
					synctest.Wait()
				}
				if got := !slices.Contains(pool.names(), tt.vols[0].Name); got != tt.gone {
					t.Errorf("got gone %v, want %v", got, tt.gone)
				}
				for _, v := range tt.vols[1:] {
					if !slices.Contains(pool.names(), v.Name) {
						t.Errorf("%s is gone too", v.Name)
					}
				}
				k.close(t)
			})
		})
	}
}

// A download that is slow, paused or resumed never looks dead to another daemon.
func TestSweep_leavesOthersLiveDownloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := qcow2Bytes(t, testVirtual, mib)
		pool, img := newMemPool(testHost), imageOf(content)
		s := &site{content: content}
		s.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				return false
			}
			w.Header().Set("Content-Length", "1048576")
			_ = trickle(r.Context(), w, content, 20, testStall-time.Second)
			return true
		}
		writer, sweeper := newKit(t, pool, s), newKit(t, pool, s)
		if err := writer.cache.Pull(t.Context(), testHost, img); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for range 20 {
			if _, err := sweeper.cache.Status(t.Context(), testHost, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(testStall - time.Second)
		}
		synctest.Wait()
		wantClean(t, pool, img, content)
		writer.close(t)
		sweeper.close(t)
	})
}

// A pool that cannot be read ends the sweep; the next contact starts another.
func TestSweep_takesUpAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newMemPool(testHost)
		pool.put(instance.Volume{Name: deadPartial})
		pool.plant(func(call, name string, _ bool) error {
			if call == "Volumes" && name == basePrefix {
				return pool.fail(instance.ReasonUnreachable, call, errPlanted)
			}
			return nil
		})
		k := newKit(t, pool, &site{fault: status(http.StatusNotFound)})
		_, _ = k.ensure(t.Context(), imageOf(nil))
		time.Sleep(10 * testStall)
		pool.plant(nil)
		_, _ = k.ensure(t.Context(), imageOf(nil))
		time.Sleep(10 * testStall)
		synctest.Wait()
		if got := pool.names(); len(got) != 0 {
			t.Errorf("got volumes %v, want none", got)
		}
		k.close(t)
	})
}

// A search ends with the look that settles its last partial: it costs the host
// three looks, a stall limit apart, whatever becomes of the partial.
func TestSweep_endsWithItsLastPartial(t *testing.T) {
	for _, tt := range []struct {
		name string
		more []instance.Volume
		// gone takes the partial away just before it would be removed.
		gone bool
	}{
		{name: "removed"},
		{name: "marked again", more: []instance.Volume{{Name: "kvm2.a.b.c.root.qcow2", BackingPath: poolDir + deadPartial}}},
		{name: "gone meanwhile", gone: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := newMemPool(testHost)
				for _, v := range append(tt.more, instance.Volume{Name: deadPartial, PhysicalBytes: 5}) {
					pool.put(v)
				}
				looks := 0
				pool.plant(func(call, name string, _ bool) error {
					switch {
					case call != "Volumes":
					case name == basePrefix:
						looks++
					case name == "" && looks > 0 && tt.gone:
						pool.remove(deadPartial)
					}
					return nil
				})
				k := newKit(t, pool, &site{fault: status(http.StatusNotFound)})
				_ = k.cache.Pull(t.Context(), testHost, imageOf(nil))
				time.Sleep(10 * testStall)
				synctest.Wait()
				if looks != 3 {
					t.Errorf("got %d looks, want 3", looks)
				}
				k.close(t)
			})
		})
	}
}
