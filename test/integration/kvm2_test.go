//go:build integration

package integration_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/client"
)

// life is one instance on its way through the contract.
type life struct {
	settings
	daemon  *daemon
	request client.CreateRequest
	id      string
	// began is when the first create was sent.
	began time.Time
	// domains is their number, whosever, with the instance.
	domains int
	made    client.Instance
}

// TestKVM2_contract drives the daemon through the client against a real host,
// one step after the other: each needs the one before.
func TestKVM2_contract(t *testing.T) {
	s := readSettings(t)
	name := "kvm2-test-" + random(4)
	l := &life{settings: s, id: "hosts/" + hostName + "/domains/" + name, request: client.CreateRequest{
		Name: name, UID: "uid-" + random(8), Placement: hostName, Tags: map[string]string{"kvm2-test": "yes", "name": name},
		UserData: client.Secret("#!/bin/sh\necho kvm2-test\n"),
	}}
	l.daemon = startDaemon(t, s)
	if !t.Run("start does not dial", l.startDoesNotDial) || !t.Run("clear", l.clear) {
		return
	}
	t.Cleanup(func() { l.cleanUp(t) })
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"health is Ready with details", l.health},
		{"create returns the ID", l.create},
		{"second create returns the same and makes nothing", l.createAgain},
		{"get reaches Running with an IPv4", l.running},
		{"list holds it", l.list},
		{"delete", l.delete},
		{"get after delete is NotFound", l.gone},
		{"delete again is fine", l.delete},
		{"pool holds base and marker and no volume of an instance", l.pool},
		{"spans are children of the request's", l.spans},
	} {
		if s.keep && step.name == "delete" {
			t.Logf("KEEP: %s stays on the host, with uid %s", l.id, l.request.UID)
			return
		}
		if !t.Run(step.name, step.do) {
			return
		}
	}
}

func random(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func (l *life) startDoesNotDial(t *testing.T) {
	t.Helper()
	if strings.Contains(l.daemon.metrics(t), "kvm2d_libvirt_dials_total{") || strings.Contains(l.daemon.log(), "libvirt dial") {
		t.Errorf("kvm2d dialled before anybody asked:\n%s", l.daemon.log())
	}
}

// clear removes what an earlier run left, and the image: the create is to bring
// it.
func (l *life) clear(t *testing.T) {
	t.Helper()
	left, err := l.daemon.ListByTag(t.Context(), map[string]string{"kvm2-test": "yes"})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range left {
		if err := l.daemon.Delete(t.Context(), i.ID, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.daemon.removeImage(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := l.holds(t).images; got != nil {
		t.Fatalf("left of the image: %v", got)
	}
}

// cleanUp leaves the host as it was, unless it is to be kept.
func (l *life) cleanUp(t *testing.T) {
	t.Helper()
	if l.keep {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	if err := errors.Join(l.daemon.Delete(ctx, l.id, ""), l.daemon.removeImage(ctx)); err != nil {
		t.Error(err)
	}
	if got := l.holds(t); got.images != nil || got.instances != nil {
		t.Errorf("left on the host: %v and %v", got.images, got.instances)
	}
}

func (l *life) health(t *testing.T) {
	t.Helper()
	report, err := l.daemon.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(l.daemon.metrics(t), "kvm2d_libvirt_dials_total{") {
		t.Error("no dial is counted: that none was at the start says nothing")
	}
	if report.Status != "ok" || len(report.Hosts) != 1 {
		t.Fatalf("got %+v, want one host, ok", report)
	}
	h := report.Hosts[0]
	if h.Host != hostName || !h.Ready || h.Reason != "Ready" {
		t.Fatalf("got %s %v %s (%s), want %s Ready", h.Host, h.Ready, h.Reason, h.Message, hostName)
	}
	d := h.Details
	for key, value := range map[string]*string{
		"user": d.User, "hostname": d.Hostname, "hostUUID": d.HostUUID, "libvirtVersion": d.LibvirtVersion,
		"domainType": d.DomainType, "pool": d.Pool, "poolState": d.PoolState,
	} {
		if value == nil || *value == "" {
			t.Errorf("no %s in the details", key)
		} else {
			t.Logf("%s: %s", key, *value)
		}
	}
	if d.Firmware == nil || len(*d.Firmware) == 0 || d.PoolCapacityGiB == nil || *d.PoolCapacityGiB <= 0 ||
		d.PoolAvailableGiB == nil || *d.PoolAvailableGiB <= 0 || d.MemoryFreeMiB == nil || *d.MemoryFreeMiB <= 0 {
		t.Errorf("got %+v, want firmware, room and memory", d)
	}
}

func (l *life) create(t *testing.T) {
	t.Helper()
	before := l.holds(t).domains
	l.began = time.Now()
	var err error
	if l.made, err = l.daemon.Create(t.Context(), l.request); err != nil {
		t.Fatal(err)
	}
	t.Logf("created after %s, the image's download included", time.Since(l.began).Round(time.Millisecond))
	if l.made.ID != l.id {
		t.Errorf("got ID %s, want %s", l.made.ID, l.id)
	}
	if l.domains = l.holds(t).domains; l.domains != before+1 {
		t.Errorf("got %d domains, want one more than %d", l.domains, before)
	}
}

func (l *life) createAgain(t *testing.T) {
	t.Helper()
	volumes := l.holds(t).instances
	again, err := l.daemon.Create(t.Context(), l.request)
	if err != nil {
		t.Fatal(err)
	}
	if again.ID != l.id || again.CreatedAt == nil || l.made.CreatedAt == nil || !again.CreatedAt.Equal(*l.made.CreatedAt) {
		t.Errorf("got %+v, want what was made: %+v", again, l.made)
	}
	if got := l.holds(t); got.domains != l.domains || !slices.Equal(got.instances, volumes) {
		t.Errorf("got %d domains and volumes %v, want still %d and %v", got.domains, got.instances, l.domains, volumes)
	}
}

func (l *life) running(t *testing.T) {
	t.Helper()
	var got client.Instance
	poll(t, l.timeout, 500*time.Millisecond, func() (err error) {
		if got, err = l.daemon.Get(t.Context(), l.id); err != nil {
			return err
		}
		if got.State != "Running" {
			return fmt.Errorf("it is %s", got.State)
		}
		return nil
	})
	if got.IP == nil {
		t.Fatal("it is Running without an IP")
	}
	if ip, err := netip.ParseAddr(*got.IP); err != nil || !ip.Is4() || !ip.IsGlobalUnicast() {
		t.Errorf("got IP %s, want an IPv4 that others can reach", *got.IP)
	}
	t.Logf("time to IP: %s, from the first create on; %s", time.Since(l.began).Round(time.Millisecond), *got.IP)
	if got.UID != l.request.UID {
		t.Errorf("got uid %v, want %s", got.UID, l.request.UID)
	}
	// The mark is in whole seconds.
	if got.CreatedAt == nil || !got.CreatedAt.Equal(*l.made.CreatedAt) || got.CreatedAt.Before(l.began.Add(-time.Second)) || got.CreatedAt.After(time.Now()) {
		t.Errorf("got createdAt %v, want %v, since %v", got.CreatedAt, l.made.CreatedAt, l.began)
	}
}

func (l *life) list(t *testing.T) {
	t.Helper()
	got, err := l.daemon.ListByTag(t.Context(), map[string]string{"name": l.request.Name})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].ID != l.id {
		t.Errorf("got %+v, want %s alone", got, l.id)
	}
}

func (l *life) delete(t *testing.T) {
	t.Helper()
	if err := l.daemon.Delete(t.Context(), l.id, l.request.UID); err != nil {
		t.Fatal(err)
	}
}

func (l *life) gone(t *testing.T) {
	t.Helper()
	if got, err := l.daemon.Get(t.Context(), l.id); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("got %+v, %v, want NotFound", got, err)
	}
	if got := l.holds(t).domains; got != l.domains-1 {
		t.Errorf("got %d domains, want %d", got, l.domains-1)
	}
}

func (l *life) pool(t *testing.T) {
	t.Helper()
	got := l.holds(t)
	if got.instances != nil {
		t.Errorf("left in the pool: %v", got.instances)
	}
	markers := 0
	for _, name := range got.images {
		if strings.HasSuffix(name, ".marker.qcow2") {
			markers++
		}
	}
	if len(got.images) != 2 || markers != 1 {
		t.Errorf("got %v, want the base and its marker", got.images)
	}
}

// spans looks at the create's trace, whose last spans come a moment after the answer.
func (l *life) spans(t *testing.T) {
	t.Helper()
	const request = "POST /instances"
	poll(t, 10*time.Second, 100*time.Millisecond, func() error {
		for name, direct := range map[string]bool{"kvm2.DomainDefineXML": true, "kvm2.dial": false, "kvm2.download": true} {
			if !slices.ContainsFunc(l.daemon.spans.of(name), func(span *tracev1.Span) bool {
				above := l.daemon.spans.ancestors(span)
				return slices.Equal(span.GetTraceId(), l.daemon.trace.trace[:]) &&
					(slices.Equal(above, []string{request}) || !direct && len(above) > 0 && above[len(above)-1] == request)
			}) {
				return fmt.Errorf("no %s under %q in the caller's trace", name, request)
			}
		}
		return nil
	})
	downloads := l.daemon.spans.of("kvm2.download")
	if len(downloads) != 1 {
		t.Fatalf("got %d downloads, want one", len(downloads))
	}
	t.Logf("cold download: %s", duration(downloads[0]).Round(time.Millisecond))
}
