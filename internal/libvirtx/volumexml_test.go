package libvirtx

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func TestVolumeXML_overlayBackingStore(t *testing.T) {
	got, err := volumeXML(instance.NewVolume{
		Name: "kvm2.kvm2d.p.12345678.root.qcow2", Format: "qcow2", CapacityBytes: 10 << 30,
		BackingPath: "/srv/vms/a&b.qcow2", BackingFormat: "raw",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `<volume>
  <name>kvm2.kvm2d.p.12345678.root.qcow2</name>
  <allocation unit="bytes">0</allocation>
  <capacity unit="bytes">10737418240</capacity>
  <target>
    <format type="qcow2"></format>
    <compat>1.1</compat>
  </target>
  <backingStore>
    <path>/srv/vms/a&amp;b.qcow2</path>
    <format type="raw"></format>
  </backingStore>
</volume>`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("volume XML (-want +got):\n%s", diff)
	}
}

func TestVolumeXML_raw(t *testing.T) {
	got, err := volumeXML(instance.NewVolume{Name: "seed.iso", Format: "raw", CapacityBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	want := `<volume>
  <name>seed.iso</name>
  <allocation unit="bytes">0</allocation>
  <capacity unit="bytes">4096</capacity>
  <target>
    <format type="raw"></format>
  </target>
</volume>`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("volume XML (-want +got):\n%s", diff)
	}
	if _, err := volumeXML(instance.NewVolume{Name: "x", Format: "raw", CapacityBytes: -1}); err == nil {
		t.Error("negative capacity: no error")
	}
}

func TestParseVolume(t *testing.T) {
	got, err := parseVolume(`<volume type='file'>
  <name>kvm2.kvm2d.p.12345678.root.qcow2</name>
  <key>/srv/vms/kvm2.kvm2d.p.12345678.root.qcow2</key>
  <capacity unit='bytes'>1073741824</capacity>
  <allocation unit='bytes'>200704</allocation>
  <physical unit='bytes'>196616</physical>
  <target>
    <path>/srv/vms/kvm2.kvm2d.p.12345678.root.qcow2</path>
    <format type='qcow2'/>
    <timestamps><atime>1764410000.1</atime><mtime>1764410000.500000000</mtime></timestamps>
    <compat>1.1</compat>
  </target>
  <backingStore><path>/srv/vms/base.qcow2</path><format type='qcow2'/></backingStore>
</volume>`)
	if err != nil {
		t.Fatal(err)
	}
	want := instance.Volume{
		Name: "kvm2.kvm2d.p.12345678.root.qcow2", Path: "/srv/vms/kvm2.kvm2d.p.12345678.root.qcow2",
		Format: "qcow2", CapacityBytes: 1 << 30, AllocationBytes: 200704, PhysicalBytes: 196616,
		ModifiedAt: time.Unix(1764410000, 500_000_000).UTC(), BackingPath: "/srv/vms/base.qcow2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("volume (-want +got):\n%s", diff)
	}
}

func TestParseVolume_foreign(t *testing.T) {
	for name, doc := range map[string]string{
		"empty": "", "no XML": "<volume", "no path": "<volume><name>a</name></volume>",
		"no name": "<volume><target><path>/a</path></target></volume>",
	} {
		if _, err := parseVolume(doc); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	v, err := parseVolume(`<volume><name>a</name><capacity>18446744073709551615</capacity>` +
		`<target><path>/a</path><timestamps><mtime>soon</mtime></timestamps></target></volume>`)
	if err != nil {
		t.Fatal(err)
	}
	if v.CapacityBytes != 1<<63-1 || !v.ModifiedAt.IsZero() {
		t.Errorf("got %d bytes, modified %v, want the largest int64 and zero", v.CapacityBytes, v.ModifiedAt)
	}
}

func TestParseTimestamp(t *testing.T) {
	for s, want := range map[string]time.Time{
		"":              {},
		"x":             {},
		"10":            time.Unix(10, 0).UTC(),
		"10.5":          time.Unix(10, 500_000_000).UTC(),
		"10.000000001":  time.Unix(10, 1).UTC(),
		"10.0000000019": time.Unix(10, 1).UTC(),
		"10.zz":         {},
	} {
		if got := parseTimestamp(s); !got.Equal(want) {
			t.Errorf("parseTimestamp(%q) = %v, want %v", s, got, want)
		}
	}
}
