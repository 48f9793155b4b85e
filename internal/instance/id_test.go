package instance_test

import (
	"errors"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func TestFormatProviderID_roundTrip(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, id := range []instance.ID{{Host: "beelink", Name: "proxy-1"}, {Host: "a", Name: "0"}, {Host: long, Name: long}, {Host: "domains", Name: "hosts"}} {
		got, err := instance.ParseID(id.String())
		if err != nil || got != id {
			t.Errorf("ParseID(%s) = %v, %v, want it back", id, got, err)
		}
	}
	if got, want := (instance.ID{Host: "h", Name: "n"}).String(), "hosts/h/domains/n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParseProviderID_malformed(t *testing.T) {
	for _, s := range []string{
		"", ".", "..", "/", "vm", "hosts", "hosts/", "hosts/h", "hosts/h/", "hosts/h/domains", "hosts/h/domains/", "hosts//domains/n",
		"/hosts/h/domains/n", "hosts/h/domains/n/", "hosts/h/domains/n/x", "hosts/h/domain/n", "domains/n/hosts/h", "HOSTS/h/domains/n",
		"hosts/H/domains/n", "hosts/h/domains/N", "hosts/h/domains/a.b", "hosts/h/domains/a_b", "hosts/h/domains/-a", "hosts/h/domains/a-",
		"hosts/h/domains/..", "hosts/h%2Fdomains%2Fn", "hosts/h/domains/n\n", " hosts/h/domains/n", "hosts/h/domains/n\x00", "hosts/h/domains/é",
		"hosts/h/domains/" + strings.Repeat("a", 64), "hosts/" + strings.Repeat("a", 64) + "/domains/n", strings.Repeat("hosts/", 1000),
		"hosts/h/domains/x/domains/n",
	} {
		_, err := instance.ParseID(s)
		if instance.ReasonOf(err) != instance.ReasonMalformedID || !errors.Is(err, instance.Permanent) {
			t.Errorf("ParseID(%.40q) = %v, want MalformedID, Permanent", s, err)
		}
	}
}

func FuzzParseID(f *testing.F) {
	for _, s := range []string{"hosts/h/domains/n", "hosts//domains/", "..", "hosts/h/domains/n/domains/n", "hosts/\xff/domains/n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := instance.ParseID(s)
		switch {
		case err != nil && instance.ReasonOf(err) != instance.ReasonMalformedID:
			t.Errorf("ParseID(%q) = %v, want MalformedID", s, err)
		case err == nil && id.String() != s:
			t.Errorf("ParseID(%q) = %v, which formats as %q", s, id, id.String())
		case err == nil && (!instance.ValidLabel(id.Host) || !instance.ValidLabel(id.Name)):
			t.Errorf("ParseID(%q) = %v, whose parts are no labels", s, id)
		}
	})
}
