//go:build lab

package lab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"testing"
	"time"
)

// A host that loses its power is an error that passes, never a missing
// instance; when it is back, so is the instance, without a restart of kvm2d.
func TestHost_powerCut(t *testing.T) {
	made := create(t, object{"name": "power", "uid": "u1", "placement": "h1"})
	id, _ := made["id"].(string)
	waitRunning(t, id, 3*time.Minute)

	lab(t, "down", "h1")
	t.Cleanup(func() { lab(t, "up") })
	for _, path := range []string{"/instances/" + id, "/instances"} {
		got := kvm2d.call(t, http.MethodGet, path, nil)
		if kind := got.object(t)["kind"]; got.status != http.StatusServiceUnavailable || kind != "Transient" {
			t.Errorf("GET %s: got status %d, kind %v, want 503, Transient", path, got.status, kind)
		}
		if got.header.Get("Retry-After") == "" {
			t.Errorf("GET %s: no Retry-After", path)
		}
	}
	var list struct {
		Unreachable []struct{ Host string }
	}
	body := want(t, http.StatusOK, http.MethodGet, "/instances?partial=true", nil).body
	if err := json.Unmarshal(body, &list); err != nil || len(list.Unreachable) != 1 || list.Unreachable[0].Host != "h1" {
		t.Errorf("got partial list %s, want h1 as unreachable", body)
	}
	if got := want(t, http.StatusOK, http.MethodGet, "/health", nil).object(t); got["status"] != "degraded" {
		t.Errorf("got health %v, want degraded", got)
	}

	lab(t, "up")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	err := poll(ctx, time.Second, func() error {
		if got := kvm2d.call(t, http.MethodGet, "/instances/"+id, nil); got.status != http.StatusOK {
			return fmt.Errorf("got status %d: %s", got.status, got.body)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	waitRunning(t, id, 3*time.Minute)
}

// lab runs a command of the lab script.
func lab(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "./lab", args...).CombinedOutput(); err != nil {
		t.Fatalf("lab %q: %v\n%s", args, err, out)
	}
}
