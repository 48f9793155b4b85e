//go:build k8s

package k8s_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// goAndCome takes a host out of the values and puts it back. A daemon that runs
// drops no host, so that the Pods have to be made anew; it takes one in by itself.
func (i *installation) goAndCome(t *testing.T) {
	p := provider(t)
	offered := func(want ...string) func() error {
		return func() error {
			report, err := p.Check(t.Context())
			if err != nil {
				return err
			}
			var got []string
			for _, host := range report.Hosts {
				got = append(got, host.Host)
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("it serves %v, want %v", got, want)
			}
			return nil
		}
	}
	kvm2 := within(t, i.values, "config", "kvm2")
	hosts, ok := kvm2["hosts"].([]object)
	if !ok || len(hosts) != 2 {
		t.Fatalf("the values have the hosts %v, want two", kvm2["hosts"])
	}
	placements := within(t, kvm2, "placements")

	before := daemons(t)
	i.upgrade(t, func(object) {
		kvm2["hosts"] = hosts[:1]
		left := maps.Clone(placements)
		maps.DeleteFunc(left, func(name string, _ any) bool { return strings.HasPrefix(name, "h2") })
		kvm2["placements"] = left
	})
	without := daemons(t)
	if len(without) != 1 || without[0].uid == before[0].uid {
		t.Errorf("Pods before: %v, without the host: %v; want one, and another", before, without)
	}
	eventually(t, 10*time.Second, "one host", offered("h1"))

	i.upgrade(t, func(object) {})
	i.upgrade(t, func(object) { kvm2["hosts"], kvm2["placements"] = hosts, placements })
	if with := daemons(t); !slices.Equal(with, without) {
		t.Errorf("Pods without the host: %v, with it again: %v; want the same", without, with)
	}
	eventually(t, 2*time.Minute, "both hosts", offered("h1", "h2"))
}
