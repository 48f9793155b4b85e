package example

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// miniature is a kvm2d with one host that gives addresses at the second look.
type miniature struct {
	vms  map[string]map[string]any
	down bool
}

func (m *miniature) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimPrefix(r.URL.Path, "/instances/")
	vm, there := m.vms[id]
	switch {
	case m.down:
		problem(w, 503, "Transient", "Unreachable")
	case r.Method == http.MethodPost:
		var spec struct{ Name, UID string }
		_ = json.NewDecoder(r.Body).Decode(&spec)
		id = "hosts/h1/domains/" + spec.Name
		vm = map[string]any{
			"id": id, "name": spec.Name, "uid": spec.UID, "host": "h1", "placement": "p", "image": "i", "size": "s",
			"state": "Provisioning", "addresses": []any{}, "tags": map[string]string{"cluster": "c1"},
		}
		m.vms[id] = vm
		answer(w, 201, vm)
	case r.URL.Path == "/instances":
		items := []any{}
		for _, vm := range m.vms {
			items = append(items, vm)
		}
		answer(w, 200, map[string]any{"items": items, "unreachable": []any{}})
	case r.Method == http.MethodDelete && there && r.URL.Query().Get("uid") != vm["uid"]:
		problem(w, 409, "Permanent", "UIDMismatch")
	case r.Method == http.MethodDelete:
		delete(m.vms, id)
		w.WriteHeader(http.StatusNoContent)
	case !there:
		problem(w, 404, "NotFound", "InstanceNotFound")
	default:
		vm["state"], vm["ip"] = "Running", "192.0.2.9"
		answer(w, 200, vm)
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func problem(w http.ResponseWriter, status int, kind, reason string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "t", "title": reason, "status": status, "instance": "r", "kind": kind, "reason": reason})
}

func TestProxies_lifeOfOne(t *testing.T) {
	kvm2d := &miniature{vms: map[string]map[string]any{}}
	server := httptest.NewServer(kvm2d)
	defer server.Close()
	o, err := Entry{Name: "edge", Server: server.URL, Placement: "p"}.Connect("c1")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Provider.Close()
	ctx := t.Context()
	p := Proxy{Name: "proxy-1", UID: "u1", CloudInit: []byte("#cloud-config\n")}
	const id = "hosts/h1/domains/proxy-1"

	step := func(name string, got State, err error, want State) State {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		return got
	}
	s, err := o.Ensure(ctx, p, State{})
	s = step("create", s, err, State{ProviderID: id, Retry: true})
	s, err = o.Ensure(ctx, p, s)
	s = step("look", s, err, State{ProviderID: id, IP: "192.0.2.9"})

	orphans, err := o.Orphans(ctx, func(string) bool { return false })
	if diff := cmp.Diff([]string{id}, orphans); err != nil || diff != "" {
		t.Errorf("orphans %v, %v", orphans, err)
	}

	kept, err := o.Remove(ctx, Proxy{Name: "proxy-1", UID: "u2"}, s)
	if err != nil || !strings.Contains(kept.Message, "UIDMismatch") {
		t.Errorf("removing a namesake: %+v, %v", kept, err)
	}
	gone, err := o.Remove(ctx, p, s)
	step("remove", gone, err, State{})
	s, err = o.Ensure(ctx, p, s)
	step("after it was removed", s, err, State{Retry: true})

	kvm2d.down = true
	deadline, cancel := context.WithTimeout(ctx, 200*time.Millisecond) // room for one attempt
	defer cancel()
	s, err = o.Ensure(deadline, p, State{ProviderID: id})
	if err == nil || s != (State{ProviderID: id, Retry: true}) {
		t.Errorf("with the host down: %+v, %v", s, err)
	}
	if _, err := o.Orphans(deadline, func(string) bool { return false }); err == nil {
		t.Error("orphans of a list that was not whole")
	}
}

func TestEntry_connect(t *testing.T) {
	server := httptest.NewTLSServer(&miniature{vms: map[string]map[string]any{}})
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := Entry{Name: "edge", Server: server.URL, CAFile: ca}.Connect("c1")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Provider.Close()
	if _, err := o.Orphans(t.Context(), nil); err != nil {
		t.Errorf("over https: %v", err)
	}
	for name, e := range map[string]Entry{
		"no authority": {Name: "edge", Server: server.URL, CAFile: ca + ".none"},
		"no server":    {Name: "edge"},
	} {
		if _, err := e.Connect("c1"); err == nil || !strings.Contains(err.Error(), "edge") {
			t.Errorf("%s: got error %v, want one that names the entry", name, err)
		}
	}
}
