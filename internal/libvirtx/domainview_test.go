package libvirtx

import (
	"errors"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func TestParseDomain_ourOwn(t *testing.T) {
	d := testDefinition()
	for name, n := range map[string]nic{"bridge": {Bridge: "br0"}, "network": {Network: "default"}} {
		t.Run(name, func(t *testing.T) {
			doc, err := domainXML(d, testPlatform(), n)
			if err != nil {
				t.Fatal(err)
			}
			got, err := parseDomain(doc)
			if err != nil {
				t.Fatal(err)
			}
			want := domainView{
				Mark: &d.Mark, RootDisk: "/srv/vms/kvm2.kvm2d.proxy-1.7c9e6679.root.qcow2",
				MACs: []string{"e2:7f:c1:f9:0a:e7"},
			}
			if n.Network != "" {
				want.Networks = []string{n.Network}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("view (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseDomain_foreign(t *testing.T) {
	for _, tc := range []struct {
		name, doc string
		want      domainView
	}{
		{"bare", "<domain/>", domainView{}},
		{"no metadata", "<domain><metadata/><devices/></domain>", domainView{}},
		{"network disk", "<domain><devices><disk><source name='x'/><target dev='vda'/></disk></devices></domain>", domainView{}},
		{"other disk", "<domain><devices><disk><source file='/a/b'/><target dev='sda'/></disk></devices></domain>", domainView{}},
		{
			"two cards", "<domain><devices><interface><mac address='52:54:00:AA:00:01'/><source network='n'/></interface>" +
				"<interface><source network='n'/></interface></devices></domain>",
			domainView{MACs: []string{"52:54:00:aa:00:01"}, Networks: []string{"n"}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseDomain(tc.doc)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("view (-want +got):\n%s", diff)
			}
		})
	}
	for _, doc := range []string{"", "<dom", "<network/>", "<domain><metadata></domain>"} {
		if _, err := parseDomain(doc); err == nil {
			t.Errorf("parseDomain(%q): no error", doc)
		}
	}
	_, err := parseDomain(`<domain><metadata><instance managed="true" owner="/"/></metadata></domain>`)
	if !errors.Is(err, errBrokenMark) {
		t.Errorf("broken mark: got %v, want errBrokenMark", err)
	}
}

func TestViewCache_parsesAnewWhatChanged(t *testing.T) {
	var c viewCache
	id := libvirt.UUID{1}
	doc := func(uid string) string {
		return `<domain><metadata><instance managed="true" owner="kvm2d" uid="` + uid + `"/></metadata></domain>`
	}
	for _, uid := range []string{"a", "a", "b", "a"} {
		view, err := c.parse(id, doc(uid))
		if err != nil || view.Mark.UID != uid {
			t.Fatalf("got %+v, %v, want uid %s", view.Mark, err, uid)
		}
	}
	if _, err := c.parse(id, "<broken"); err == nil {
		t.Error("broken: no error")
	}
	c.keepOnly([]libvirt.DomainStatsRecord{})
	if len(c.byUUID) != 0 {
		t.Errorf("got %d views kept, want 0", len(c.byUUID))
	}
}

func FuzzParseDomain(f *testing.F) {
	doc, err := domainXML(testDefinition(), testPlatform(), nic{Network: "default"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(doc)
	f.Add("<domain><devices><disk><source file=''/><target dev='vda'/></disk></devices></domain>")
	f.Add("<domain xmlns='x'><metadata>&bad;</metadata></domain>")
	f.Fuzz(func(t *testing.T, doc string) {
		view, err := parseDomain(doc)
		if err != nil && view.Mark != nil {
			t.Fatal("a mark beside an error")
		}
		if view.Mark != nil && !instance.ValidLabel(view.Mark.Owner) {
			t.Fatalf("owner %q", view.Mark.Owner)
		}
	})
}
