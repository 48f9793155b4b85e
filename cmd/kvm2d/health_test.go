package main

import (
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx/sim"
)

// TestCheck_detailsKeys holds the details of a health entry, as callers get
// them, to the contract's keys (H2): all of a host that answers, and of one that
// does not, those that are known without it.
func TestCheck_detailsKeys(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := startDaemon(t, func(o *appOptions) {
		good := o.Backends.connector
		o.Backends.connector = func(h config.Host) (libvirtx.Connector, error) {
			if h.Name != "sim-2" {
				return good(h)
			}
			absent := sim.NewHost(sim.Options{Name: h.Name})
			absent.Down(&net.OpError{Op: "dial", Err: errors.New("refused")})
			return absent, nil
		}
	})
	status, got := d.call(http.MethodGet, d.api+"/health", "")
	if status != http.StatusOK {
		t.Fatalf("got status %d, want 200: %v", status, got)
	}
	keys := map[string][]string{}
	for _, entry := range list(got["hosts"]) {
		e, _ := entry.(map[string]any)
		host, _ := e["host"].(string)
		details, _ := e["details"].(map[string]any)
		for key, value := range details {
			if value == nil || value == "" || value == 0.0 {
				t.Errorf("%s: %s is empty", host, key)
			}
		}
		keys[host] = slices.Sorted(maps.Keys(details))
	}
	want := map[string][]string{
		"sim-1": {
			"domainType", "firmware", "hostUUID", "hostname", "libvirtVersion", "memoryFreeMiB", "pool",
			"poolAvailableGiB", "poolCapacityGiB", "poolState", "user",
		},
		"sim-2": {"pool", "user"},
	}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("keys of the details (-want +got):\n%s", diff)
	}
	if err := d.end(); err != nil {
		t.Error(err)
	}
	d.client.CloseIdleConnections()
}
