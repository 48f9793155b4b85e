package instance_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is one daemon's Service over fake hosts.
type world struct {
	*instance.Service
	hosts  fakeHosts
	images *fakeImages
	log    *logBuffer
	opts   instance.Options
}

// host is the first of the hosts, for tests with one.
func (w *world) host() *fakeHost { return w.hosts[0] }

// newWorld makes a Service over rooms that are named alpha, beta, gamma, delta.
func newWorld(t *testing.T, rooms ...*room) *world {
	t.Helper()
	if len(rooms) == 0 {
		rooms = []*room{newRoom()}
	}
	names := []string{"alpha", "beta", "gamma", "delta"}
	w := &world{log: &logBuffer{}}
	catalog := instance.Catalog{
		Images:     map[string]instance.Image{"debian": {Name: "debian"}, "tiny": {Name: "tiny"}},
		Sizes:      map[string]instance.Size{"small": {Name: "small", VCPUs: 1, MemoryMiB: 512, DiskGiB: 10}, "asimage": {Name: "asimage"}},
		Placements: map[string]instance.Placement{},
	}
	for i, r := range rooms {
		w.hosts = append(w.hosts, &fakeHost{room: r, name: names[i]})
		catalog.Placements[names[i]] = instance.Placement{Name: names[i], Host: names[i], Image: "debian", Size: "small"}
	}
	w.images = &fakeImages{hosts: w.hosts}
	w.opts = instance.Options{
		Hosts: w.hosts, Images: w.images, Catalog: catalog, Owner: testOwner,
		CreateWait: 10 * time.Minute, CreatesPerHost: 3,
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: instance.LevelDetail})),
	}
	w.restart(t)
	return w
}

// restart replaces the Service as a new process would.
func (w *world) restart(t *testing.T) {
	t.Helper()
	s, err := instance.New(w.opts)
	if err != nil {
		t.Fatal(err)
	}
	w.Service = s
	t.Cleanup(func() { closeNow(s) })
}

// closeNow cancels what is under way and waits for it.
func closeNow(s *instance.Service) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Close(ctx)
}

// setHook puts one hook in the way of all hosts' and the images' calls.
func (w *world) setHook(h hook) {
	for _, f := range w.hosts {
		f.hook = h
	}
	w.images.hook = h
}

func spec(name string) instance.Spec {
	return instance.Spec{
		Name: name, UID: "uid-1", Placement: "alpha", UserData: instance.Secret(testUserData),
		Tags: map[string]string{"team": "red"}, Autostart: true,
	}
}

const patience = time.Minute

func (w *world) mustCreate(t *testing.T, s instance.Spec) instance.Created {
	t.Helper()
	got, err := w.Create(t.Context(), s, patience)
	if err != nil {
		t.Fatalf("Create(%s) = %v", s.Name, err)
	}
	return got
}

// wantReason fails unless err is an *Error of that reason naming host and instance.
func wantReason(t *testing.T, err error, want instance.Reason, host, name string) {
	t.Helper()
	var e *instance.Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v, want an *instance.Error with reason %s", err, want)
	}
	if e.Reason != want {
		t.Fatalf("got reason %s (%v), want %s", e.Reason, err, want)
	}
	if e.Host != host || e.Instance != name {
		t.Errorf("error names host %q and instance %q, want %q and %q: %v", e.Host, e.Instance, host, name, err)
	}
}

// wantOneVM fails unless the room holds exactly one whole, running machine of
// that name with its own two volumes, and no other volume.
func wantOneVM(t *testing.T, r *room, name string) instance.Machine {
	t.Helper()
	domains, volumes := r.snapshot(t)
	m, ok := domains[name]
	if !ok || len(domains) != 1 {
		t.Fatalf("got domains %v, want %s alone", domains, name)
	}
	if m.Power != instance.PowerOn || !m.Persistent || m.Mark.Deleting {
		t.Errorf("got machine %+v with mark %+v, want it running, persistent and not being deleted", m, m.Mark)
	}
	prefix := "kvm2." + testOwner + "." + name + "." + m.UUID[:8] + "."
	if want := []string{prefix + "root.qcow2", prefix + "seed.iso"}; !slices.Equal(volumes, want) {
		t.Errorf("got volumes %v, want %v", volumes, want)
	}
	return m
}

func wantNothing(t *testing.T, r *room) {
	t.Helper()
	if domains, volumes := r.snapshot(t); len(domains) != 0 || len(volumes) != 0 {
		t.Errorf("got domains %v and volumes %v, want nothing left", domains, volumes)
	}
}

// logBuffer collects log lines of several goroutines.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// lines counts the lines of that level.
func (b *logBuffer) lines(level string) int { return strings.Count(b.String(), "level="+level+" ") }
