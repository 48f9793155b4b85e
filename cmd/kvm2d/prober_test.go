package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// scriptedService answers each Check with the next report; the last one stays.
type scriptedService struct {
	reports []instance.Report
	page    instance.Page
	checks  atomic.Int32
	// imagesOf are the hosts whose images were asked for.
	imagesOf []string
}

func (s *scriptedService) Check(context.Context) instance.Report {
	n := int(s.checks.Add(1))
	return s.reports[min(n, len(s.reports))-1]
}

func (s *scriptedService) List(context.Context, instance.Filter) (instance.Page, error) {
	return s.page, nil
}

func (s *scriptedService) Images(_ context.Context, host string) ([]instance.ImageStatus, error) {
	s.imagesOf = append(s.imagesOf, host)
	if host == "broken" {
		return nil, instance.Errorf(instance.ReasonPoolNotFound, "no such pool")
	}
	return []instance.ImageStatus{
		{Image: "debian-13", Host: host, State: instance.ImageReady, SizeBytes: 300},
		{Image: "debian-13", Host: host, State: instance.ImageReady, SizeBytes: 100, Identity: "older"},
	}, nil
}

func TestProber_firstLookAfterOneInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := &scriptedService{reports: []instance.Report{{}}}
		life := &lifecycle{log: slog.New(slog.DiscardHandler)}
		p := newProber(target, 30*time.Second, life.log, prometheus.NewRegistry())
		p.start(t.Context(), life)
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if target.checks.Load() != 0 || !p.Last().At.IsZero() {
			t.Errorf("after 29 s: got %d looks, want none", target.checks.Load())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if target.checks.Load() != 2 {
			t.Errorf("after 89 s: got %d looks, want 2", target.checks.Load())
		}
		if err := life.stop(t.Context(), time.Second); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if target.checks.Load() != 2 {
			t.Errorf("after the end: got %d looks, want no more than 2", target.checks.Load())
		}
	})
}

// panickingService panics in its first Check.
type panickingService struct{ scriptedService }

func (s *panickingService) Check(ctx context.Context) instance.Report {
	if s.checks.Load() == 0 {
		s.checks.Add(1)
		panic("sentinel-of-a-panic")
	}
	return s.scriptedService.Check(ctx)
}

func TestProber_panicCostsThatLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		target := &panickingService{scriptedService{reports: []instance.Report{{}}}}
		life := &lifecycle{log: slog.New(slog.NewJSONHandler(&log, nil))}
		p := newProber(target, 30*time.Second, life.log, prometheus.NewRegistry())
		p.start(t.Context(), life)
		time.Sleep(time.Minute)
		synctest.Wait()
		if p.Last().At.IsZero() {
			t.Error("got no look after the one that panicked")
		}
		if err := life.stop(t.Context(), time.Second); err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), `"stack":`); n != 1 || strings.Contains(log.String(), "sentinel") {
			t.Errorf("got %d stacks in the log, want 1, and nothing of the value:\n%s", n, &log)
		}
	})
}

func TestProber_gaugesAndChanges(t *testing.T) {
	size, free := 10.0, 2.5
	good := instance.HostHealth{
		Host: "a", Ready: true, Reason: instance.ReasonReady,
		Details: instance.HostDetails{Pool: "default", PoolCapacityGiB: &size, PoolAvailableGiB: &free},
	}
	dead := instance.HostHealth{Host: "b", Reason: instance.ReasonUnreachable, Message: "connection refused"}
	back := instance.HostHealth{Host: "b", Ready: true, Reason: instance.ReasonReady}
	target := &scriptedService{
		reports: []instance.Report{{Hosts: []instance.HostHealth{good, dead}}, {Hosts: []instance.HostHealth{good, back}}},
		page: instance.Page{
			Items:       []instance.Instance{{ID: instance.ID{Host: "a", Name: "x"}, State: instance.Running}},
			Unreachable: []instance.UnreachableHost{{Host: "b", Reason: instance.ReasonUnreachable}},
		},
	}
	var lines bytes.Buffer
	reg := prometheus.NewRegistry()
	p := newProber(target, time.Minute, slog.New(slog.NewTextHandler(&lines, nil)), reg)

	p.look(t.Context())
	want := `
# HELP kvm2d_image_bytes Space that the contents of an image take in the host's pool.
# TYPE kvm2d_image_bytes gauge
kvm2d_image_bytes{host="a",image="debian-13"} 400
# HELP kvm2d_host_ready Whether the host can take instances; the reason is that of the last look.
# TYPE kvm2d_host_ready gauge
kvm2d_host_ready{host="a",reason="Ready"} 1
kvm2d_host_ready{host="b",reason="Unreachable"} 0
# HELP kvm2d_instances Instances of ours on the host by state.
# TYPE kvm2d_instances gauge
kvm2d_instances{host="a",state="Provisioning"} 0
kvm2d_instances{host="a",state="Running"} 1
kvm2d_instances{host="a",state="Stopped"} 0
# HELP kvm2d_pool_available_bytes Free space in the host's storage pool.
# TYPE kvm2d_pool_available_bytes gauge
kvm2d_pool_available_bytes{host="a",pool="default"} 2.68435456e+09
# HELP kvm2d_pool_capacity_bytes Size of the host's storage pool.
# TYPE kvm2d_pool_capacity_bytes gauge
kvm2d_pool_capacity_bytes{host="a",pool="default"} 1.073741824e+10
`
	names := []string{"kvm2d_host_ready", "kvm2d_image_bytes", "kvm2d_instances", "kvm2d_pool_available_bytes", "kvm2d_pool_capacity_bytes"}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}

	target.page.Unreachable = nil
	p.look(t.Context())
	p.look(t.Context())
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP kvm2d_host_ready Whether the host can take instances; the reason is that of the last look.
# TYPE kvm2d_host_ready gauge
kvm2d_host_ready{host="a",reason="Ready"} 1
kvm2d_host_ready{host="b",reason="Ready"} 1
`), "kvm2d_host_ready"); err != nil {
		t.Error(err)
	}
	got := lines.String()
	for _, want := range []string{
		`level=WARN msg="host is not ready" host=b reason=Unreachable was="" message="connection refused"`,
		`level=INFO msg="host is ready" host=b was=Unreachable`,
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("want once in the log: %s\ngot:\n%s", want, got)
		}
	}
}

func TestProber_imagesOfThoseThatCanBeAsked(t *testing.T) {
	hosts := []instance.HostHealth{
		{Host: "a", Ready: true, Reason: instance.ReasonReady},
		{Host: "dead", Reason: instance.ReasonUnreachable},
		{Host: "broken", Reason: instance.ReasonPoolNotFound},
		{Host: "resting", Reason: instance.ReasonMaintenance},
	}
	target := &scriptedService{
		reports: []instance.Report{{Hosts: hosts}},
		page:    instance.Page{Unreachable: []instance.UnreachableHost{{Host: "dead", Reason: instance.ReasonUnreachable}}},
	}
	p := newProber(target, time.Minute, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	p.look(t.Context())
	if diff := cmp.Diff([]string{"a", "broken", "resting"}, target.imagesOf); diff != "" {
		t.Errorf("hosts asked for their images (-want +got):\n%s", diff)
	}
	var got []string
	for _, row := range p.Last().Images {
		got = append(got, row.Host)
	}
	if diff := cmp.Diff([]string{"a", "a", "resting", "resting"}, got); diff != "" {
		t.Errorf("hosts of the images (-want +got):\n%s", diff)
	}
}

func TestProber_cancelledLookIsForgotten(t *testing.T) {
	target := &scriptedService{reports: []instance.Report{{Hosts: []instance.HostHealth{{Host: "a", Reason: instance.ReasonCancelled}}}}}
	p := newProber(target, time.Minute, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.look(ctx)
	if got := p.Last(); !got.At.IsZero() {
		t.Errorf("got %+v, want nothing remembered", got)
	}
}
