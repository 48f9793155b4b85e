//go:build integration

package integration_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/image"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
)

// walked is the instance that the walks make and remove.
const walked = "kvm2-test-walk"

var walkedID = instance.ID{Host: hostName, Name: walked}

// service is a kvm2d without its edge, over a real host and a plan.
type service struct {
	*instance.Service
	stops []func()
}

// startService makes one. The guests need not boot, so BIOS will do.
func startService(t *testing.T, s settings, p *plan) *service {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	out := &service{}
	link, err := libvirtx.NewLink(libvirtx.LinkOptions{Host: hostName, Connector: faultyConnector{s.connector(t), p}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	out.stops = append(out.stops, func() { _ = link.Close() })
	h, err := libvirtx.NewHost(libvirtx.HostOptions{
		Name: hostName, Link: link, Owner: testOwner, Pool: s.pool, Bridge: s.bridge, DomainType: s.domainType, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	hosts := libvirtx.NewHosts([]*libvirtx.Host{h})
	cache, err := image.New(image.Options{
		Pool: func(name string) (image.Pool, bool) { return hosts.Host(name) },
		Log:  log, Tracer: noop.NewTracerProvider().Tracer(""), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	out.stops = append(out.stops, func() { _ = cache.Close(ended()) })
	out.Service, err = instance.New(instance.Options{
		Hosts: hosts, Images: cache, Owner: testOwner, CreateWait: s.timeout, CreatesPerHost: 3, Log: log,
		Catalog: instance.Catalog{
			Images:     map[string]instance.Image{testImage: {Name: testImage, URL: s.imageURL, SHA256: s.imageSHA256, Firmware: instance.FirmwareBIOS}},
			Sizes:      map[string]instance.Size{"small": {Name: "small", VCPUs: 1, MemoryMiB: 128}},
			Placements: map[string]instance.Placement{hostName: {Name: hostName, Host: hostName, Image: testImage, Size: "small"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	out.stops = append(out.stops, func() { _ = out.Close(ended()) })
	t.Cleanup(out.stop)
	return out
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// stop ends the service at once, as a drain whose time is up.
func (s *service) stop() {
	for _, stop := range slices.Backward(s.stops) {
		stop()
	}
	s.stops = nil
}

func (s *service) create(ctx context.Context) error {
	got, err := s.Create(ctx, instance.Spec{
		Name: walked, UID: "walker", Placement: hostName, UserData: instance.Secret("#!/bin/sh\n"), Autostart: true,
	}, 10*time.Minute)
	if err == nil && got.Instance.ID != walkedID {
		return fmt.Errorf("got ID %s, want %s", got.Instance.ID, walkedID)
	}
	return err
}

func (s *service) remove(ctx context.Context) error {
	return s.Delete(ctx, walkedID.String(), "walker")
}

// walk is one way to call the service, with its n-th call to libvirt spoilt.
type walk struct {
	// prepare brings the host into the state from which the call starts.
	prepare, call func(context.Context, *service) error
	// settled checks what the same call, made again, has brought the host to.
	settled func(*testing.T, settings)
}

// run spoils call n = 1, 2, 3 … until one passes untouched.
func (w walk) run(t *testing.T, s settings, f fault) {
	t.Helper()
	began := time.Now()
	struck := map[string]int{}
	for n := 1; ; n++ {
		p := &plan{}
		d := startService(t, s, p)
		if err := w.prepare(t.Context(), d); err != nil {
			t.Fatalf("n=%d: prepare: %v", n, err)
		}
		p.strike(f, n)
		err := w.call(t.Context(), d)
		calls, method := p.outcome()
		p.strike(f, 0)
		if calls < n && err != nil {
			t.Fatalf("without a fault: %v", err)
		}
		if err != nil && instance.ReasonOf(err).Kind() != instance.Transient {
			t.Errorf("n=%d, %s: got kind %s (%v), want Transient", n, method, instance.ReasonOf(err).Kind(), err)
		}
		struck[method]++
		if n%2 == 0 {
			// As after a crash, nothing is remembered.
			d.stop()
			d = startService(t, s, p)
		}
		if err := again(t, func() error { return w.call(t.Context(), d) }); err != nil {
			t.Fatalf("n=%d, %s: again: %v", n, method, err)
		}
		w.settled(t, s)
		d.stop()
		if t.Failed() {
			t.Fatalf("n=%d, %s, after: %v", n, method, err)
		}
		if calls < n {
			delete(struck, "")
			t.Logf("walked %d calls in %s: %v", n-1, time.Since(began).Round(time.Second), struck)
			return
		}
	}
}

// again makes a call until it passes, for as long as a lost connection may be
// the answer of the moment (the transport paces its dials).
func again(t *testing.T, call func() error) error {
	t.Helper()
	var err error
	for deadline := time.Now().Add(10 * time.Second); ; {
		if err = call(); instance.ReasonOf(err) != instance.ReasonUnreachable || time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-t.Context().Done():
			return err
		}
	}
}

// TestKVM2_createResumesFromEveryFailingCall walks a create over real libvirt:
// after each failure the same call ends in one running VM.
func TestKVM2_createResumesFromEveryFailingCall(t *testing.T) {
	s := readSettings(t)
	sweepWalked(t, s)
	create := func(ctx context.Context, d *service) error { return d.create(ctx) }
	for _, from := range []struct {
		state   string
		full    bool
		prepare func(context.Context, *service) error
	}{
		{"nothing", false, func(ctx context.Context, d *service) error { return d.remove(ctx) }},
		{"no image", true, func(ctx context.Context, d *service) error {
			return errors.Join(d.remove(ctx), d.RemoveImage(ctx, testImage, hostName, ""))
		}},
		{"off", true, func(ctx context.Context, d *service) error {
			return errors.Join(d.create(ctx), onDomain(ctx, t, s, func(conn libvirtx.Conn, dom libvirt.Domain) error {
				return conn.DomainDestroy(ctx, dom)
			}))
		}},
	} {
		for _, f := range faultsToMeet(from.full) {
			t.Run(from.state+"/"+f.String(), func(t *testing.T) {
				walk{from.prepare, create, wantOne}.run(t, s, f)
			})
		}
	}
}

// fullWalk in the environment makes the walks meet every fault from every state.
const fullWalk = "KVM2_TEST_FULL_WALK"

// faultsToMeet are the faults of a walk; one that only a full walk has meets
// none otherwise.
func faultsToMeet(full bool) []fault {
	switch {
	case os.Getenv(fullWalk) != "":
		return []fault{refused, undelivered, replyLost}
	case full:
		return nil
	}
	return []fault{refused, replyLost}
}

// TestKVM2_deleteEndsEmptyFromEveryFailingCall walks a delete likewise.
func TestKVM2_deleteEndsEmptyFromEveryFailingCall(t *testing.T) {
	s := readSettings(t)
	sweepWalked(t, s)
	create := func(ctx context.Context, d *service) error { return d.create(ctx) }
	remove := func(ctx context.Context, d *service) error { return d.remove(ctx) }
	for _, f := range faultsToMeet(false) {
		t.Run(f.String(), func(t *testing.T) {
			walk{create, remove, wantNone}.run(t, s, f)
		})
	}
}

// onDomain does something to the walked domain over a connection of its own.
func onDomain(ctx context.Context, t *testing.T, s settings, do func(libvirtx.Conn, libvirt.Domain) error) error {
	t.Helper()
	conn, err := s.connector(t).Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	dom, err := conn.DomainLookupByName(ctx, walked)
	if err != nil {
		return err
	}
	return do(conn, dom)
}

// wantOne fails unless there is the one running, persistent VM and no volume of
// the tests' instances besides its own three.
func wantOne(t *testing.T, s settings) {
	t.Helper()
	err := onDomain(t.Context(), t, s, func(conn libvirtx.Conn, dom libvirt.Domain) error {
		wantWhole(t, conn, dom)
		prefix := fmt.Sprintf("kvm2.%s.%s.%x.", testOwner, walked, dom.UUID[:4])
		want := []string{prefix + "console.log", prefix + "root.qcow2", prefix + "seed.iso"}
		if got := slices.Sorted(slices.Values(s.holds(t).instances)); !slices.Equal(got, want) {
			t.Errorf("got volumes %v, want %v", got, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// wantWhole fails unless a domain runs, is persistent, carries the walker's
// mark and is not being deleted.
func wantWhole(t *testing.T, conn libvirtx.Conn, dom libvirt.Domain) {
	t.Helper()
	state, _, err := conn.DomainGetState(t.Context(), dom)
	persistent, err2 := conn.DomainIsPersistent(t.Context(), dom)
	xml, err3 := conn.DomainGetXMLDesc(t.Context(), dom, libvirt.DomainXMLInactive)
	if err := errors.Join(err, err2, err3); err != nil {
		t.Error(err)
		return
	}
	if libvirt.DomainState(state) != libvirt.DomainRunning || !persistent {
		t.Errorf("got state %d, persistent %v, want it running and persistent", state, persistent)
	}
	if !strings.Contains(xml, `uid="walker"`) && !strings.Contains(xml, `uid='walker'`) || strings.Contains(xml, "deleting=") {
		t.Errorf("got %s, want it with the walker's uid and not being deleted", xml)
	}
}

// wantNone fails when anything of the tests' instances is left.
func wantNone(t *testing.T, s settings) {
	t.Helper()
	if got := s.holds(t).instances; got != nil {
		t.Errorf("left in the pool: %v", got)
	}
	err := onDomain(t.Context(), t, s, func(libvirtx.Conn, libvirt.Domain) error { return errors.New("the domain is left") })
	if e, ok := errors.AsType[libvirt.Error](err); !ok || e.Code != uint32(libvirt.ErrNoDomain) {
		t.Error(err)
	}
}

// sweepWalked removes what an earlier run left, now and at the end, and brings
// the image.
func sweepWalked(t *testing.T, s settings) {
	t.Helper()
	d := startService(t, s, &plan{})
	sweep := func(ctx context.Context) {
		if err := errors.Join(d.Delete(ctx, walkedID.String(), ""), d.RemoveImage(ctx, testImage, hostName, "")); err != nil {
			t.Errorf("sweep: %v", err)
		}
	}
	sweep(t.Context())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		sweep(ctx)
	})
	if err := d.create(t.Context()); err != nil {
		t.Fatal(err)
	}
}
