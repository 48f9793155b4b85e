package libvirtx

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

func readTestdata(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestParseCapabilities(t *testing.T) {
	got, err := parseCapabilities(readTestdata(t, "capabilities.xml"))
	if err != nil {
		t.Fatal(err)
	}
	want := hostCaps{
		HostUUID: "51f8efb3-46c3-5757-b7f4-3e3d2e9731d0", Arch: "x86_64",
		DomainTypes: []string{"qemu", "kvm"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("capabilities (-want +got):\n%s", diff)
	}
}

func TestParsePlatform(t *testing.T) {
	caps := hostCaps{HostUUID: "u", Arch: "x86_64"}
	doc := readTestdata(t, "domcapabilities-qemu.xml")
	both := []instance.Firmware{instance.FirmwareUEFI, instance.FirmwareBIOS}
	base := platform{
		HostUUID: "u", Arch: "x86_64", Machine: "q35", DomainType: "qemu",
		Emulator: "/usr/bin/qemu-system-x86_64", CPUMode: "maximum", Firmwares: both,
	}
	with := func(change func(*platform)) platform {
		p := base
		change(&p)
		return p
	}
	for _, tc := range []struct {
		name, doc, machine string
		caps               hostCaps
		want               platform
	}{
		{"emulated", doc, "q35", caps, base},
		{
			"no UEFI", strings.Replace(doc, "<value>efi</value>", "", 1), "q35", caps,
			with(func(p *platform) { p.Firmwares = both[1:] }),
		},
		{
			"another architecture has no BIOS", doc, "virt",
			hostCaps{HostUUID: "u", Arch: "aarch64"},
			with(func(p *platform) { p.Arch, p.Machine, p.Firmwares = "aarch64", "virt", both[:1] }),
		},
		{"libvirt's own machine", doc, "", caps, with(func(p *platform) { p.Machine = "pc-q35-7.2" })},
		{
			"kvm like the host", strings.Replace(doc, "<domain>qemu", "<domain>kvm", 1), "q35", caps,
			with(func(p *platform) { p.DomainType, p.CPUMode = "kvm", "host-model" }),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parsePlatform(tc.caps, tc.machine, tc.doc)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("platform (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseCapabilities_foreign(t *testing.T) {
	for _, doc := range []string{"", "<capabilities/>", "<capabilities><host><cpu><arch>x86_64</arch></cpu></host></capabilities>", "{}"} {
		if _, err := parseCapabilities(doc); err == nil {
			t.Errorf("parseCapabilities(%q): no error", doc)
		}
	}
	for _, doc := range []string{"", "<domainCapabilities/>", "<x"} {
		if _, err := parsePlatform(hostCaps{}, "q35", doc); err == nil {
			t.Errorf("parsePlatform(%q): no error", doc)
		}
	}
}

func TestChooseDomainType(t *testing.T) {
	for _, tc := range []struct {
		configured string
		offered    []string
		want       string
	}{
		{"", []string{"qemu", "kvm"}, "kvm"},
		{"auto", []string{"qemu", "kvm"}, "kvm"},
		{"auto", []string{"qemu"}, "qemu"},
		{"qemu", []string{"qemu", "kvm"}, "qemu"},
		{"kvm", []string{"qemu"}, "kvm"},
	} {
		if got := chooseDomainType(tc.configured, tc.offered); got != tc.want {
			t.Errorf("chooseDomainType(%q, %v) = %q, want %q", tc.configured, tc.offered, got, tc.want)
		}
	}
}
