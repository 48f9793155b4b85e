//go:build lab

package imagefaults_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// fillerFile takes all the room of the small pool.
const fillerFile = "/var/lib/libvirt/small/filler"

// A pool that fills up while an image comes is told as such, nothing of the
// attempt stays, and with room again the next create is as any other.
func TestPoolFull(t *testing.T) {
	r := newRig(t)
	content := newQCOW2(t, randomBytes(1, 8*mib), 12*mib)
	image := source{name: "disk", url: r.mirror.addBytes("disk", content), sha256: sha256Of(content)}
	d := r.newDaemon(t, build(t), "full", r.config("{stall: 10s}", []place{{"small", "h1", "small"}}, []source{image}))
	if err := d.start(); err != nil {
		t.Fatal(err)
	}
	create := func() answer {
		t.Helper()
		got, err := d.call(http.MethodPost, "/instances", object{"name": "full", "uid": "u1", "placement": "small-disk"})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	wantFull := func(when string) {
		t.Helper()
		if got := create(); got.status != http.StatusInsufficientStorage || got.reason() != "PoolFull" {
			t.Errorf("%s: got %v, want 507, PoolFull", when, got)
		}
		poll(t, time.Minute, time.Second, "an empty pool", func() error { return wantVolumes("filler") })
	}
	t.Cleanup(func() { mustLab(t, "exec", "h1", "rm", "-f", fillerFile) })

	filled := false
	r.mirror.plan(planned{fault: deed("pool filled"), share: 0.3, act: func() {
		filled = true
		fill(t)
	}})
	wantFull("a pool that fills up in mid-transfer")
	if !filled {
		t.Fatal("the pool was not filled in mid-transfer")
	}
	wantFull("a pool that is full already")

	mustLab(t, "exec", "h1", "rm", fillerFile)
	// The pool's figures may be some seconds old.
	poll(t, 10*time.Second, time.Second, "a create with room again", func() error {
		if got := create(); got.status != http.StatusCreated {
			return fmt.Errorf("got %v, want 201", got)
		}
		return nil
	})
	for _, path := range []string{"/instances/hosts/small/domains/full", "/images/disk?host=small"} {
		if got, err := d.call(http.MethodDelete, path, nil); err != nil || got.status != http.StatusNoContent {
			t.Errorf("delete %s: got %v, %v", path, got, err)
		}
	}
	if err := wantVolumes(); err != nil {
		t.Error(err)
	}
}

// fill takes the room that is left; that dd fails at the end is its purpose.
func fill(t *testing.T) {
	t.Helper()
	mustLab(t, "exec", "h1", "sh", "-c", "dd if=/dev/zero of="+fillerFile+" bs=64k 2>/dev/null; test -s "+fillerFile)
}

func wantVolumes(want ...string) error {
	got, err := volumes("h1", "small")
	if err != nil || !slices.Equal(got, want) {
		return fmt.Errorf("got volumes %q, %w, want %q", got, err, want)
	}
	return nil
}
