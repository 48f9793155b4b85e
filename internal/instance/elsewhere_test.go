package instance_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// TestExchangedPoolCostsNoMachine: neither a create nor a delete touches a
// machine whose disks are in another pool than the configured one.
func TestExchangedPoolCostsNoMachine(t *testing.T) {
	for name, power := range map[string]instance.Power{"off": instance.PowerOff, "running": instance.PowerOn} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mustCreate(t, spec("vm"))
			m := w.host().domains["vm"]
			m.Power = power
			before := *m
			w.host().poolDir = "/anew"
			for volume := range w.host().volumes {
				if strings.HasPrefix(volume, "kvm2.") {
					delete(w.host().volumes, volume)
				}
			}
			_, err := w.Create(t.Context(), spec("vm"), patience)
			wantReason(t, err, instance.ReasonMisconfigured, "alpha", "vm")
			wantReason(t, w.Delete(t.Context(), vmID, ""), instance.ReasonMisconfigured, "alpha", "vm")
			if diff := cmp.Diff(before, *w.host().domains["vm"]); diff != "" {
				t.Errorf("the machine was touched (-want +got)\n%s", diff)
			}
		})
	}
}

// TestCreate_diskMovedByHand: the seed that stayed in the pool does not make a
// disk that is elsewhere, in a file or in something else, a lost one.
func TestCreate_diskMovedByHand(t *testing.T) {
	for name, at := range map[string]string{"file": "/fast/vm.qcow2", "no file": ""} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mustCreate(t, spec("vm"))
			m := w.host().domains["vm"]
			delete(w.host().volumes, m.Overlay)
			m.Power, m.RootDisk, m.Overlay = instance.PowerOff, at, strings.TrimPrefix(at, "/fast/")
			before := *m
			_, err := w.Create(t.Context(), spec("vm"), patience)
			wantReason(t, err, instance.ReasonMisconfigured, "alpha", "vm")
			if diff := cmp.Diff(before, *w.host().domains["vm"]); diff != "" {
				t.Errorf("the machine was touched (-want +got)\n%s", diff)
			}
		})
	}
}

// TestDelete_poolUnderAnotherPath: what the pool lists is the machine's own,
// whatever the path in its definition.
func TestDelete_poolUnderAnotherPath(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	w.host().poolDir = "/mnt/pool"
	if err := w.Delete(t.Context(), vmID, ""); err != nil {
		t.Fatal(err)
	}
	wantNothing(t, w.host().room)
}

// TestList_oneLibvirtUnderTwoNames lists a machine once, with the host whose
// pool has its disk: a second ID would be deleted as nobody's.
func TestList_oneLibvirtUnderTwoNames(t *testing.T) {
	for _, tt := range []struct {
		name        string
		alpha, beta string
		want        []string
	}{
		{"the first's pool", "", "/other", []string{"hosts/alpha/domains/vm"}},
		{"the second's pool", "/other", "", []string{"hosts/beta/domains/vm"}},
		{"the same pool", "", "", []string{"hosts/alpha/domains/vm"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRoom()
			w := newWorld(t, r, r)
			w.mustCreate(t, spec("vm"))
			w.hosts[0].poolDir, w.hosts[1].poolDir = tt.alpha, tt.beta
			ctx, trail := instance.WithTrail(t.Context())
			page, err := w.List(ctx, instance.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, i := range page.Items {
				got = append(got, i.ID.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if _, warnings := trail.Read(); len(warnings) != 1 {
				t.Errorf("got warnings %q, want one", warnings)
			}
		})
	}
}
