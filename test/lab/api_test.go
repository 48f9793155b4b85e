//go:build lab

package lab_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// object is a JSON object as it came.
type object = map[string]any

// answer is what the daemon said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// object returns the body, which must be a JSON object.
func (a answer) object(t *testing.T) object {
	t.Helper()
	var o object
	if err := json.Unmarshal(a.body, &o); err != nil {
		t.Fatalf("body %q: %v", a.body, err)
	}
	return o
}

// call sends a request; body is sent as JSON unless nil.
func (d *daemon) call(t *testing.T, method, path string, body any) answer {
	t.Helper()
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		content = bytes.NewReader(data)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, d.api+path, content)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Prefer", "wait=150")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer{resp.StatusCode, resp.Header, data}
}

// want calls and fails the test unless the status is the one wanted.
func want(t *testing.T, status int, method, path string, body any) answer {
	t.Helper()
	got := kvm2d.call(t, method, path, body)
	if got.status != status {
		t.Fatalf("%s %s: got status %d, want %d: %s", method, path, got.status, status, got.body)
	}
	return got
}

// wantProblem calls and fails the test unless the answer is that problem.
func wantProblem(t *testing.T, status int, kind, reason, method, path string, body any) {
	t.Helper()
	kvm2d.call(t, method, path, body).isProblem(t, status, kind, reason)
}

// isProblem fails the test unless the answer is that problem.
func (a answer) isProblem(t *testing.T, status int, kind, reason string) {
	t.Helper()
	if media := a.header.Get("Content-Type"); a.status != status || media != "application/problem+json" {
		t.Fatalf("got status %d and Content-Type %q, want a problem with status %d: %s", a.status, media, status, a.body)
	}
	if problem := a.object(t); problem["kind"] != kind || problem["reason"] != reason {
		t.Errorf("got %v, want kind %s and reason %s", problem, kind, reason)
	}
}

// create makes an instance, sees to its deletion at the end of the test, and
// returns it.
func create(t *testing.T, spec object) object {
	t.Helper()
	id := fmt.Sprintf("hosts/%s/domains/%s", hostOf(t, spec), spec["name"])
	t.Cleanup(func() {
		if got := kvm2d.call(t, http.MethodDelete, "/instances/"+id, nil); got.status != http.StatusNoContent {
			t.Errorf("clean up %s: got status %d: %s", id, got.status, got.body)
		}
	})
	got := want(t, http.StatusCreated, http.MethodPost, "/instances", spec)
	if want := "/instances/" + id; got.header.Get("Location") != want {
		t.Errorf("got Location %q, want %q", got.header.Get("Location"), want)
	}
	instance := got.object(t)
	if instance["id"] != id {
		t.Errorf("got id %v, want %s", instance["id"], id)
	}
	return instance
}

// hostOf returns the host of spec's placement, as the daemon tells it.
func hostOf(t *testing.T, spec object) string {
	t.Helper()
	var list struct {
		Items []struct{ Name, Host string }
	}
	if err := json.Unmarshal(want(t, http.StatusOK, http.MethodGet, "/placements", nil).body, &list); err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		if p.Name == spec["placement"] {
			return p.Host
		}
	}
	t.Fatalf("no placement %v in %v", spec["placement"], list)
	return ""
}

// waitRunning follows an instance until its state is Running and returns it.
func waitRunning(t *testing.T, id string, limit time.Duration) object {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	began := time.Now()
	var instance object
	err := poll(ctx, 500*time.Millisecond, func() error {
		instance = want(t, http.StatusOK, http.MethodGet, "/instances/"+id, nil).object(t)
		switch instance["state"] {
		case "Running":
			return nil
		case "Provisioning":
			return fmt.Errorf("still %v", instance)
		default:
			t.Fatalf("it ended as %v", instance)
			return nil
		}
	})
	if err != nil {
		t.Fatalf("wait for %s: %v", id, err)
	}
	t.Logf("%s is Running after %s: %v", id, time.Since(began).Round(100*time.Millisecond), instance["addresses"])
	return instance
}
