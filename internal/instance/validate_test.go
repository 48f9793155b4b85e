package instance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// pointers are the faults that a Create of s is refused with.
func pointers(t *testing.T, s instance.Spec) []string {
	t.Helper()
	w := newWorld(t)
	_, err := w.DryRun(t.Context(), s)
	if err == nil {
		return nil
	}
	if instance.ReasonOf(err) != instance.ReasonInvalidRequest {
		t.Fatalf("got %v, want InvalidRequest", err)
	}
	var e *instance.Error
	errors.As(err, &e)
	var out []string
	for _, f := range e.Faults {
		out = append(out, f.Pointer)
	}
	return out
}

func TestCreate_validatesTheRequest(t *testing.T) {
	tags := func(n int) map[string]string {
		out := map[string]string{}
		for i := range n {
			out[fmt.Sprintf("k%d", i)] = ""
		}
		return out
	}
	for _, tt := range []struct {
		name   string
		change func(*instance.Spec)
		want   []string
	}{
		{"fine", func(*instance.Spec) {}, nil},
		{"longest name", func(s *instance.Spec) { s.Name = strings.Repeat("a", 63) }, nil},
		{"name too long", func(s *instance.Spec) { s.Name = strings.Repeat("a", 64) }, []string{"/name"}},
		{"name with a dot", func(s *instance.Spec) { s.Name = "a.b" }, []string{"/name"}},
		{"name in upper case", func(s *instance.Spec) { s.Name = "Vm" }, []string{"/name"}},
		{"name with underscore", func(s *instance.Spec) { s.Name = "a_b" }, []string{"/name"}},
		{"name with newline", func(s *instance.Spec) { s.Name = "vm\n" }, []string{"/name"}},
		{"name leaving the pool", func(s *instance.Spec) { s.Name = "../x" }, []string{"/name"}},
		{"no name", func(s *instance.Spec) { s.Name = "" }, []string{"/name"}},
		{"no uid", func(s *instance.Spec) { s.UID = "" }, nil},
		{"longest uid", func(s *instance.Spec) { s.UID = strings.Repeat("aZ9._:-x", 16) }, nil},
		{"uid too long", func(s *instance.Spec) { s.UID = strings.Repeat("a", 129) }, []string{"/uid"}},
		{"uid with slash", func(s *instance.Spec) { s.UID = "a/b" }, []string{"/uid"}},
		{"no placement", func(s *instance.Spec) { s.Placement = "" }, []string{"/placement"}},
		{"most tags", func(s *instance.Spec) { s.Tags = tags(32) }, nil},
		{"too many tags", func(s *instance.Spec) { s.Tags = tags(33) }, []string{"/tags"}},
		{"tag key", func(s *instance.Spec) { s.Tags = map[string]string{"A-z/0.9_": "v"} }, nil},
		{"tag key with space", func(s *instance.Spec) { s.Tags = map[string]string{"a b": "v"} }, []string{"/tags"}},
		{"tag key empty", func(s *instance.Spec) { s.Tags = map[string]string{"": "v"} }, []string{"/tags"}},
		{"tag value of 256 characters", func(s *instance.Spec) { s.Tags = map[string]string{"k": strings.Repeat("é", 256)} }, nil},
		{"tag value too long", func(s *instance.Spec) { s.Tags = map[string]string{"a/k": strings.Repeat("é", 257)} }, []string{"/tags/a~1k"}},
		{"tag value with tab", func(s *instance.Spec) { s.Tags = map[string]string{"k": "a\tb"} }, []string{"/tags/k"}},
		{"tag value with C1 control", func(s *instance.Spec) { s.Tags = map[string]string{"k": "\u0085"} }, []string{"/tags/k"}},
		{"tag value XML cannot hold", func(s *instance.Spec) { s.Tags = map[string]string{"k": "\uffff"} }, []string{"/tags/k"}},
		{"tag value not UTF-8", func(s *instance.Spec) { s.Tags = map[string]string{"k": "\xff"} }, []string{"/tags/k"}},
		{"all at once", func(s *instance.Spec) {
			s.Name, s.UID, s.Placement = "", "/", ""
		}, []string{"/name", "/uid", "/placement"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := spec("vm")
			tt.change(&s)
			if diff := cmp.Diff(tt.want, pointers(t, s)); diff != "" {
				t.Errorf("faults (-want +got)\n%s", diff)
			}
		})
	}
}

func TestSecret_showsItsLengthOnly(t *testing.T) {
	s := struct{ UserData instance.Secret }{instance.Secret("hunter2")}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s.UserData, "spec", s)
	body, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{
		fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %q %x %d", s, s, s, s.UserData, s.UserData, s.UserData, s.UserData), log.String(), string(body),
	} {
		for _, leak := range []string{"hunter2", "68756e74", "104 117", "aHVudGVy"} {
			if strings.Contains(out, leak) {
				t.Errorf("%q shows the secret", out)
			}
		}
		if !strings.Contains(out, "7 bytes") {
			t.Errorf("%q does not tell the length", out)
		}
	}
}
