package instance_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func ids(p instance.Page) []string {
	out := []string{}
	for _, i := range p.Items {
		out = append(out, i.ID.String())
	}
	return out
}

func (w *world) mustList(t *testing.T, f instance.Filter) instance.Page {
	t.Helper()
	p, err := w.List(t.Context(), f)
	if err != nil {
		t.Fatalf("List(%+v) = %v", f, err)
	}
	if p.Items == nil || p.Unreachable == nil {
		t.Error("a list of the page is nil, want it empty")
	}
	return p
}

func on(host, name string) instance.Spec {
	s := spec(name)
	s.Placement = host
	return s
}

func TestListByTag_excludesUnmarkedDomains(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	r := w.host().room
	r.domains["foreign"] = &instance.Machine{Name: "foreign", UUID: "1"}
	r.domains["theirs"] = &instance.Machine{Name: "theirs", UUID: "2", Mark: &instance.Mark{Owner: "other"}}
	if diff := cmp.Diff([]string{vmID}, ids(w.mustList(t, instance.Filter{}))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestListByTag_emptyUIDStillListed(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	w.host().markOf("vm", func(m *instance.Mark) { m.UID = "" })
	if got := w.mustList(t, instance.Filter{}); len(got.Items) != 1 {
		t.Errorf("got %v, want the instance", ids(got))
	}
}

func TestListByTag_acrossHostsInConfigOrder(t *testing.T) {
	w := newWorld(t, newRoom(), newRoom())
	for _, s := range []instance.Spec{on("beta", "b"), on("beta", "a"), on("alpha", "z"), on("alpha", "y")} {
		w.mustCreate(t, s)
	}
	want := []string{"hosts/alpha/domains/y", "hosts/alpha/domains/z", "hosts/beta/domains/a", "hosts/beta/domains/b"}
	if diff := cmp.Diff(want, ids(w.mustList(t, instance.Filter{}))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestListByTag_hostsSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newRoom(), newRoom(), newRoom())
		w.setHook(slow("List", time.Second))
		began := time.Now()
		w.mustList(t, instance.Filter{})
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %s, want one host's time", took)
		}
	})
}

func unreachable(host string) hook {
	return func(context.Context, string) (before, after error) {
		return &instance.Error{Reason: instance.ReasonUnreachable, Op: "list domains", Host: host}, nil
	}
}

func TestListByTag_unreachableHostFailsWhole(t *testing.T) {
	w := newWorld(t, newRoom(), newRoom())
	w.mustCreate(t, spec("vm"))
	w.hosts[1].hook = unreachable("beta")
	got, err := w.List(t.Context(), instance.Filter{})
	wantReason(t, err, instance.ReasonUnreachable, "beta", "")
	if !errors.Is(err, instance.Transient) || len(got.Items) != 0 {
		t.Errorf("got %v with %v, want a Transient error alone", ids(got), err)
	}
	if got := w.mustList(t, instance.Filter{Host: "alpha"}); len(got.Items) != 1 {
		t.Errorf("got %v of the other host, want its instance", ids(got))
	}
	ctx, trail := instance.WithTrail(t.Context())
	part, err := w.List(ctx, instance.Filter{Partial: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []instance.UnreachableHost{{Host: "beta", Reason: instance.ReasonUnreachable}}
	if diff := cmp.Diff(want, part.Unreachable); diff != "" || len(part.Items) != 1 {
		t.Errorf("partial list: got %v, unreachable (-want +got)\n%s", ids(part), diff)
	}
	if _, warnings := trail.Read(); len(warnings) != 1 {
		t.Errorf("got warnings %v, want one", warnings)
	}
}

func TestListByTag_unreadableDomainSkipped(t *testing.T) {
	w := newWorld(t)
	w.mustCreate(t, spec("vm"))
	w.host().skipped = 2
	w.host().domains["No_Label"] = &instance.Machine{Name: "No_Label", UUID: "1", Mark: &instance.Mark{Owner: testOwner}}
	got := w.mustList(t, instance.Filter{})
	if got.Skipped != 3 || !slices.Equal(ids(got), []string{vmID}) {
		t.Errorf("got %v and %d skipped, want the readable one and 3", ids(got), got.Skipped)
	}
}

func TestListByTag_filters(t *testing.T) {
	w := newWorld(t, newRoom(), newRoom())
	for i, tags := range []map[string]string{{"team": "red", "tier": "1"}, {"team": "red"}, {"team": "blue", "tier": "1"}, {"tier": ""}} {
		s := on("alpha", fmt.Sprintf("vm%d", i))
		s.Tags = tags
		w.mustCreate(t, s)
	}
	w.mustCreate(t, on("beta", "other"))
	w.hosts[0].domains["vm1"].Power = instance.PowerOff
	for _, tt := range []struct {
		name   string
		filter instance.Filter
		want   []string
	}{
		{"one tag", instance.Filter{Tags: map[string]string{"team": "red"}, Host: "alpha"}, []string{"vm0", "vm1"}},
		{"all must match", instance.Filter{Tags: map[string]string{"team": "red", "tier": "1"}}, []string{"vm0"}},
		{"empty value is not absence", instance.Filter{Tags: map[string]string{"tier": ""}}, []string{"vm3"}},
		{"placement", instance.Filter{Placement: "beta"}, []string{"other"}},
		{"state", instance.Filter{State: instance.Stopped}, []string{"vm1"}},
		{"none", instance.Filter{Tags: map[string]string{"team": "green"}}, []string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := []string{}
			for _, i := range w.mustList(t, tt.filter).Items {
				got = append(got, i.ID.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	_, err := w.List(t.Context(), instance.Filter{State: "Asleep"})
	wantReason(t, err, instance.ReasonInvalidRequest, "", "")
	_, err = w.List(t.Context(), instance.Filter{Host: "nowhere"})
	wantReason(t, err, instance.ReasonHostNotConfigured, "nowhere", "")
}
