package instance_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// TestCreate_defineThatFails: what becomes of the volumes depends on what the
// host says of the machine then, and on whether the define may still be on its way.
func TestCreate_defineThatFails(t *testing.T) {
	refused := &instance.Error{Reason: instance.ReasonRefusedByLibvirt, Op: "define", Host: "alpha"}
	unanswered := &instance.Error{Reason: instance.ReasonUnreachable, Op: "define", Host: "alpha"}
	for _, tt := range []struct {
		name string
		// before and after are the first define's errors, look that of the look after it.
		before, after, look error
		want                instance.Reason
		volumes             int
	}{
		{name: "only its answer is lost", after: unanswered, volumes: 2},
		{name: "refused", before: refused, want: instance.ReasonRefusedByLibvirt},
		{name: "unanswered, and not there yet", before: unanswered, want: instance.ReasonUnreachable, volumes: 2},
		{name: "refused, and nobody can look", before: refused, look: unanswered, want: instance.ReasonRefusedByLibvirt, volumes: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			defines := 0
			w.setHook(func(_ context.Context, call string) (before, after error) {
				switch {
				case call == "Define":
					defines++
					if defines == 1 {
						return tt.before, tt.after
					}
				case call == "Find" && defines == 1:
					return tt.look, nil
				}
				return nil, nil
			})
			ctx, trail := instance.WithTrail(t.Context())
			_, err := w.Create(ctx, spec("vm"), patience)
			domains, volumes := w.host().snapshot(t)
			if len(volumes) != tt.volumes {
				t.Errorf("got volumes %v, want %d", volumes, tt.volumes)
			}
			if tt.want == "" {
				if err != nil || domains["vm"].Power != instance.PowerOn {
					t.Errorf("got %v and domains %v, want the machine running", err, domains)
				}
				return
			}
			wantReason(t, err, tt.want, "alpha", "vm")
			if _, warnings := trail.Read(); (len(warnings) > 0) != (tt.volumes > 0) {
				t.Errorf("got warnings %q with %d volumes left", warnings, tt.volumes)
			}
		})
	}
}

// stepAt has the world note, for each call of its hosts, the step that is told
// to whoever asks then how far the create is.
func stepAt(w *world) map[string]string {
	var mu sync.Mutex
	steps := map[string]string{}
	w.setHook(func(ctx context.Context, call string) (before, after error) {
		step, _ := instance.TrailFrom(ctx).Read()
		call, _, _ = strings.Cut(call, " ")
		mu.Lock()
		defer mu.Unlock()
		if _, seen := steps[call]; !seen {
			steps[call] = step
		}
		return nil, nil
	})
	return steps
}

// TestCreate_stepOfEachCall: a create that hangs tells in which step.
func TestCreate_stepOfEachCall(t *testing.T) {
	w := newWorld(t)
	made := stepAt(w)
	w.mustCreate(t, spec("vm"))
	m := w.host().domains["vm"]
	m.Power, m.Mark.UID = instance.PowerOff, ""
	adopted := stepAt(w)
	w.mustCreate(t, spec("vm"))
	for _, tt := range []struct {
		what      string
		got, want map[string]string
	}{
		{"a create", made, map[string]string{
			"Find": "look up the name", "Preflight": "check the host and wait for the image", "Ensure": "check the host and wait for the image",
			"CreateVolume": "make the volumes", "Define": "define the domain", "Start": "start the domain",
		}},
		{"an adoption", adopted, map[string]string{
			"Find": "look up the name", "Start": "start the domain", "SetAutostart": "start the domain", "SetMark": "adopt the domain",
		}},
	} {
		for call, want := range tt.want {
			if diff := cmp.Diff(want, tt.got[call]); diff != "" {
				t.Errorf("%s, at %s (-want +got):\n%s", tt.what, call, diff)
			}
		}
	}
}

// TestCreate_repeatWritesNothing: what is there and runs is read only.
func TestCreate_repeatWritesNothing(t *testing.T) {
	for _, uid := range []string{"", "uid-1"} {
		w := newWorld(t)
		s := spec("vm")
		s.UID = uid
		w.mustCreate(t, s)
		calls := stepAt(w)
		w.mustCreate(t, s)
		for _, call := range []string{"SetMark", "SetAutostart", "Define", "Start", "CreateVolume", "DeleteVolume", "Upload"} {
			if _, made := calls[call]; made {
				t.Errorf("uid %q: the repeat made a call of %s", uid, call)
			}
		}
	}
}
