package libvirtx

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const declared = ` xmlns:kvm2="https://gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/kvm2"`

func wantMark() *instance.Mark {
	return &instance.Mark{
		Owner: "kvm2d", UID: "u-1", Placement: "beelink", Image: "debian-13", Size: "small",
		CreatedAt: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC),
		Tags:      map[string]string{"role": "egress", "a/b": "<&>"},
	}
}

const markAttrs = ` managed="true" owner="kvm2d" uid="u-1" createdAt="2026-11-29T10:00:00Z"` +
	` placement="beelink" image="debian-13" size="small"`

func TestParseMetadata_withNamespace(t *testing.T) {
	for name, doc := range map[string]string{
		"prefix": "\n    <kvm2:instance" + declared + markAttrs +
			">\n      <kvm2:tag key=\"role\" value=\"egress\"/>\n      <kvm2:tag key=\"a/b\" value=\"&lt;&amp;&gt;\"/>\n    </kvm2:instance>\n",
		"another prefix": `<x:instance xmlns:x="` + markNamespace + `"` + markAttrs +
			`><x:tag key="role" value="egress"/><x:tag key="a/b" value="&lt;&amp;&gt;"/></x:instance>`,
		"default namespace": `<instance xmlns="` + markNamespace + `"` + markAttrs +
			`><tag key="role" value="egress"/><tag key="a/b" value="&lt;&amp;&gt;"/></instance>`,
		"behind somebody else's": `<nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1" managed="true" owner="nova"><nova:name>x</nova:name></nova:instance>` +
			`<kvm2:instance` + declared + markAttrs + `><kvm2:tag key="role" value="egress"/><kvm2:tag key="a/b" value="&lt;&amp;&gt;"/></kvm2:instance>`,
	} {
		t.Run(name, func(t *testing.T) { parsesTo(t, doc, wantMark()) })
	}
}

func TestParseMetadata_withoutNamespaceDeclaration(t *testing.T) {
	for name, doc := range map[string]string{
		"no prefix": "<instance" + markAttrs +
			">\n  <tag key=\"role\" value=\"egress\"/>\n  <tag key=\"a/b\" value=\"&lt;&amp;&gt;\"/>\n</instance>",
		"prefix undeclared": "<kvm2:instance" + markAttrs +
			`><kvm2:tag key="role" value="egress"/><kvm2:tag key="a/b" value="&lt;&amp;&gt;"/></kvm2:instance>`,
	} {
		t.Run(name, func(t *testing.T) { parsesTo(t, doc, wantMark()) })
	}
}

func TestParseMetadata_absentGivesEmptyUID(t *testing.T) {
	for name, doc := range map[string]string{
		"absent": `<instance managed="true" owner="kvm2d"/>`,
		"empty":  `<instance managed="true" owner="kvm2d" uid=""/>`,
	} {
		t.Run(name, func(t *testing.T) { parsesTo(t, doc, &instance.Mark{Owner: "kvm2d"}) })
	}
}

func TestParseMetadata_deleting(t *testing.T) {
	parsesTo(t, `<instance managed="true" owner="kvm2d" deleting="true"/>`, &instance.Mark{Owner: "kvm2d", Deleting: true})
}

func TestParseMetadata_foreignIsNoMark(t *testing.T) {
	for name, doc := range map[string]string{
		"nothing":                 "",
		"text":                    "hello",
		"another element":         `<kvm:machine xmlns:kvm="x" managed="true" owner="kvm2d"/>`,
		"another namespace":       `<nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1" managed="true" owner="kvm2d"/>`,
		"not managed":             `<instance owner="kvm2d"/>`,
		"inside somebody's":       `<x:box xmlns:x="y"><instance managed="true" owner="kvm2d"/></x:box>`,
		"our prefix, not ours":    `<kvm2:instance xmlns:kvm2="urn:else" managed="true" owner="kvm2d"/>`,
		"an older provider's":     `<instance xmlns="https://gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/kvm" managed="true" owner="kvm2d"/>`,
		"a comment and an entity": `<!-- <instance managed="true" owner="kvm2d"/> -->&amp;`,
	} {
		t.Run(name, func(t *testing.T) { parsesTo(t, doc, nil) })
	}
}

func TestParseMetadata_brokenIsAnError(t *testing.T) {
	for name, doc := range map[string]string{
		"no owner":      `<instance managed="true"/>`,
		"wild owner":    `<instance managed="true" owner="../x"/>`,
		"created never": `<instance managed="true" owner="kvm2d" createdAt="yesterday"/>`,
		"cut short":     `<instance managed="true" owner="kvm2d"><tag key="a"`,
		"no XML":        `<<<`,
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := ParseMetadata(doc); !errors.Is(err, errBrokenMark) || got != nil {
				t.Errorf("got %+v, %v, want nil and errBrokenMark", got, err)
			}
		})
	}
}

func parsesTo(t *testing.T, doc string, want *instance.Mark) {
	t.Helper()
	got, err := ParseMetadata(doc)
	if err != nil {
		t.Fatalf("ParseMetadata: %v\n%s", err, doc)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mark (-want +got):\n%s", diff)
	}
}

func TestMark_roundTripsBothForms(t *testing.T) {
	want := wantMark()
	want.Deleting = true
	want.Tags = map[string]string{"q": `"'<>&`, "ü": "naïve", "empty": ""}
	for name, format := range map[string]func(instance.Mark) (string, error){
		"bare": formatMark, "qualified": formatMarkQualified,
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := format(*want)
			if err != nil {
				t.Fatal(err)
			}
			parsesTo(t, doc, want)
		})
	}
}

func FuzzParseMetadata(f *testing.F) {
	f.Add(`<instance managed="true" owner="kvm2d" uid="u"><tag key="a" value="b"/></instance>`)
	f.Add("<kvm2:instance" + declared + markAttrs + "/>")
	f.Add(`<!DOCTYPE x [<!ENTITY a "b">]><instance managed="true" owner="&a;"/>`)
	f.Add(`<instance managed="true" owner="kvm2d"><tag key=`)
	f.Fuzz(func(t *testing.T, doc string) {
		mark, err := ParseMetadata(doc)
		if err != nil && mark != nil {
			t.Fatal("a mark beside an error")
		}
		if mark == nil {
			return
		}
		if !instance.ValidLabel(mark.Owner) {
			t.Fatalf("owner %q", mark.Owner)
		}
		out, err := formatMark(*mark)
		if err != nil {
			t.Skip("holds characters that XML cannot")
		}
		again, err := ParseMetadata(out)
		if err != nil {
			t.Fatalf("what was read cannot be written and read again: %v\n%s", err, out)
		}
		if again.Owner != mark.Owner || again.Deleting != mark.Deleting {
			t.Fatalf("got %+v, want %+v", again, mark)
		}
	})
}
