package libvirtx

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"libvirt.org/go/libvirtxml"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

var updateDomainXML = flag.Bool("update-domain-xml", false, "write testdata/domain-*.xml anew")

func testDefinition() instance.Definition {
	return instance.Definition{
		Name: "proxy-1",
		UUID: "7c9e6679-7425-40de-944b-e07fc1f90ae7",
		Mark: instance.Mark{
			Owner: "kvm2d", UID: "a1:b2", Placement: "beelink", Image: "debian-13", Size: "small",
			CreatedAt: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC),
			Tags:      map[string]string{"role": "egress", "note": `<"&'>`},
		},
		VCPUs:       2,
		MemoryMiB:   1024,
		Firmware:    instance.FirmwareUEFI,
		OverlayPath: "/srv/vms/kvm2.kvm2d.proxy-1.7c9e6679.root.qcow2",
		SeedPath:    "/srv/vms/kvm2.kvm2d.proxy-1.7c9e6679.seed.iso",
		ConsolePath: "/srv/vms/kvm2.kvm2d.proxy-1.7c9e6679.console.log",
		Autostart:   true,
	}
}

func testPlatform() platform {
	return platform{
		Arch: "x86_64", Machine: "q35", DomainType: "kvm", Emulator: "/usr/bin/qemu-system-x86_64",
		CPUMode: "host-model", Firmwares: []instance.Firmware{instance.FirmwareUEFI, instance.FirmwareBIOS},
	}
}

// describe renders d and reads it back with the library.
func describe(t *testing.T, d instance.Definition, p platform, n nic) (string, libvirtxml.Domain) {
	t.Helper()
	doc, err := domainXML(d, p, n)
	if err != nil {
		t.Fatalf("domainXML: %v", err)
	}
	var dom libvirtxml.Domain
	if err := dom.Unmarshal(doc); err != nil {
		t.Fatalf("read back: %v\n%s", err, doc)
	}
	return doc, dom
}

func TestDomainXML_golden(t *testing.T) {
	bios := testDefinition()
	bios.Firmware = instance.FirmwareBIOS
	emulated := testPlatform()
	emulated.DomainType, emulated.CPUMode = "qemu", "maximum"
	arm := testPlatform()
	arm.Arch, arm.Machine, arm.Emulator = "aarch64", "virt", "/usr/bin/qemu-system-aarch64"
	for _, tc := range []struct {
		name string
		d    instance.Definition
		p    platform
		n    nic
	}{
		{"uefi-bridge", testDefinition(), testPlatform(), nic{Bridge: "br0"}},
		{"bios-network", bios, emulated, nic{Network: "default"}},
		{"aarch64", testDefinition(), arm, nic{Bridge: "br0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, _ := describe(t, tc.d, tc.p, tc.n)
			file := filepath.Join("testdata", "domain-"+tc.name+".xml")
			if *updateDomainXML {
				if err := os.WriteFile(file, []byte(got+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got+"\n"); diff != "" {
				t.Errorf("domain XML (-want +got):\n%s", diff)
			}
			validate(t, file)
		})
	}
}

// validate checks file against libvirt's own schema where its tool is installed.
func validate(t *testing.T, file string) {
	t.Helper()
	tool, err := exec.LookPath("virt-xml-validate")
	if _, lintErr := exec.LookPath("xmllint"); err != nil || lintErr != nil {
		t.Log("virt-xml-validate or the xmllint it needs is not installed: schema not checked")
		return
	}
	if out, err := exec.CommandContext(t.Context(), tool, file, "domain").CombinedOutput(); err != nil {
		t.Errorf("virt-xml-validate: %v\n%s", err, out)
	}
}

func TestDomainXML_fileDisksWithResolvedPaths(t *testing.T) {
	d := testDefinition()
	_, dom := describe(t, d, testPlatform(), nic{Bridge: "br0"})
	type disk struct{ Dev, Bus, File, Format string }
	var got []disk
	for _, dk := range dom.Devices.Disks {
		if dk.Source == nil || dk.Source.File == nil {
			t.Fatalf("disk %s is not of type file", dk.Target.Dev)
		}
		got = append(got, disk{dk.Target.Dev, dk.Target.Bus, dk.Source.File.File, dk.Driver.Type})
	}
	want := []disk{
		{"vda", "virtio", d.OverlayPath, "qcow2"},
		{"vdb", "virtio", d.SeedPath, "raw"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("disks (-want +got):\n%s", diff)
	}
	if dom.Devices.Disks[0].ReadOnly != nil || dom.Devices.Disks[1].ReadOnly == nil {
		t.Error("want a writable root disk and a read-only seed")
	}
}

func TestDomainXML_uefiDefaultSecureBootOff(t *testing.T) {
	for _, fw := range []instance.Firmware{instance.FirmwareUEFI, ""} {
		d := testDefinition()
		d.Firmware = fw
		_, dom := describe(t, d, testPlatform(), nic{Bridge: "br0"})
		if dom.OS.Firmware != "efi" {
			t.Errorf("firmware %q: got os firmware %q, want efi", fw, dom.OS.Firmware)
		}
		want := []libvirtxml.DomainOSFirmwareFeature{{Enabled: "no", Name: "secure-boot"}}
		if dom.OS.FirmwareInfo == nil {
			t.Fatal("no firmware features")
		}
		if diff := cmp.Diff(want, dom.OS.FirmwareInfo.Features); diff != "" {
			t.Errorf("firmware features (-want +got):\n%s", diff)
		}
		if dom.OS.Loader != nil || dom.OS.NVRam != nil {
			t.Error("loader or NVRAM named: the choice is libvirt's")
		}
	}
}

func TestDomainXML_biosEscape(t *testing.T) {
	d := testDefinition()
	d.Firmware = instance.FirmwareBIOS
	_, dom := describe(t, d, testPlatform(), nic{Bridge: "br0"})
	if dom.OS.Firmware != "" || dom.OS.FirmwareInfo != nil {
		t.Errorf("got firmware %q, %v, want none", dom.OS.Firmware, dom.OS.FirmwareInfo)
	}
}

func TestDomainXML_metadataElement(t *testing.T) {
	d := testDefinition()
	doc, dom := describe(t, d, testPlatform(), nic{Bridge: "br0"})
	if !strings.Contains(doc, `xmlns:kvm2="https://gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/kvm2"`) {
		t.Error("namespace not declared")
	}
	got, err := ParseMetadata(dom.Metadata.XML)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&d.Mark, got); diff != "" {
		t.Errorf("mark (-want +got):\n%s", diff)
	}
}

func TestDomainXML_guestAgentChannel(t *testing.T) {
	_, dom := describe(t, testDefinition(), testPlatform(), nic{Bridge: "br0"})
	if len(dom.Devices.Channels) != 1 {
		t.Fatalf("got %d channels, want 1", len(dom.Devices.Channels))
	}
	ch := dom.Devices.Channels[0]
	if ch.Target.VirtIO == nil || ch.Target.VirtIO.Name != "org.qemu.guest_agent.0" {
		t.Errorf("got target %+v, want org.qemu.guest_agent.0", ch.Target)
	}
	if ch.Source.UNIX == nil || ch.Source.UNIX.Path != "" {
		t.Errorf("got source %+v, want a unix socket without a path", ch.Source.UNIX)
	}
}

func TestDomainXML_refusesNonsense(t *testing.T) {
	for name, spoil := range map[string]func(*instance.Definition){
		"uuid":      func(d *instance.Definition) { d.UUID = "{7c9e6679-7425-40de-944b-e07fc1f90ae7}" },
		"no vcpus":  func(d *instance.Definition) { d.VCPUs = 0 },
		"no memory": func(d *instance.Definition) { d.MemoryMiB = -1 },
	} {
		d := testDefinition()
		spoil(&d)
		if _, err := domainXML(d, testPlatform(), nic{Bridge: "br0"}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestMACFromUUID(t *testing.T) {
	for _, tc := range []struct{ uuid, want string }{
		{"7c9e6679-7425-40de-944b-e07fc1f90ae7", "e2:7f:c1:f9:0a:e7"},
		{"7c9e6679-7425-40de-944b-010203040506", "02:02:03:04:05:06"},
		{"7c9e6679-7425-40de-944b-ff0203040506", "02:02:03:04:05:06"}, // fe is libvirt's own
		{"7c9e6679-7425-40de-944b-fd0203040506", "02:02:03:04:05:06"},
	} {
		got, err := macFromUUID(tc.uuid)
		if err != nil || got.String() != tc.want {
			t.Errorf("macFromUUID(%s) = %s, %v, want %s", tc.uuid, got, err, tc.want)
		}
	}
}
