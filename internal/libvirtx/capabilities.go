package libvirtx

import (
	"encoding/xml"
	"fmt"
	"slices"

	"libvirt.org/go/libvirtxml"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// The architectures on which defaults differ.
const (
	archX86   = "x86_64"
	archARM   = "aarch64"
	archRISCV = "riscv64"
)

// The domain types that this service makes, and the word that leaves the choice to the host.
const (
	domainTypeAuto = "auto"
	domainTypeKVM  = "kvm"
	domainTypeQEMU = "qemu"
)

// hostCaps is what we need of a host's capabilities.
type hostCaps struct {
	HostUUID string
	// Arch is the host's own architecture.
	Arch string
	// DomainTypes are those that the host offers for full virtualisation of its own architecture.
	DomainTypes []string
}

// platform is how domains are made on a host.
type platform struct {
	HostUUID   string
	Arch       string
	Machine    string
	DomainType string
	Emulator   string
	// CPUMode is libvirt's word, "" to leave the processor to libvirt.
	CPUMode   string
	Firmwares []instance.Firmware
}

// has reports whether the host can boot a domain with fw.
func (p platform) has(fw instance.Firmware) bool { return slices.Contains(p.Firmwares, fw) }

// firmwareNames are the firmwares as words, for a health entry.
func (p platform) firmwareNames() []string {
	names := make([]string, 0, len(p.Firmwares))
	for _, fw := range p.Firmwares {
		names = append(names, string(fw))
	}
	return names
}

// parseCapabilities reads the answer of ConnectGetCapabilities.
func parseCapabilities(doc string) (hostCaps, error) {
	var caps libvirtxml.Caps
	if err := xml.Unmarshal([]byte(doc), &caps); err != nil {
		return hostCaps{}, fmt.Errorf("parse capabilities: %w", err)
	}
	out := hostCaps{HostUUID: caps.Host.UUID}
	if caps.Host.CPU != nil {
		out.Arch = caps.Host.CPU.Arch
	}
	for _, guest := range caps.Guests {
		if guest.OSType != "hvm" || guest.Arch.Name != out.Arch {
			continue
		}
		for _, d := range guest.Arch.Domains {
			out.DomainTypes = append(out.DomainTypes, d.Type)
		}
	}
	if out.Arch == "" || len(out.DomainTypes) == 0 {
		return hostCaps{}, fmt.Errorf("parse capabilities: no full virtualisation for architecture %q", out.Arch)
	}
	return out, nil
}

// chooseDomainType gives the configured type, or for auto the fastest that the host claims.
func chooseDomainType(configured string, offered []string) string {
	if configured != "" && configured != domainTypeAuto {
		return configured
	}
	if slices.Contains(offered, domainTypeKVM) {
		return domainTypeKVM
	}
	return domainTypeQEMU
}

// machineFor is the machine type asked for; "" is libvirt's default of the architecture.
func machineFor(arch string) string {
	switch arch {
	case archX86:
		return "q35"
	case archARM, archRISCV:
		return "virt"
	default:
		return ""
	}
}

// parsePlatform reads the answer of ConnectGetDomainCapabilities.
func parsePlatform(caps hostCaps, machine, doc string) (platform, error) {
	var dc libvirtxml.DomainCaps
	if err := xml.Unmarshal([]byte(doc), &dc); err != nil {
		return platform{}, fmt.Errorf("parse domain capabilities: %w", err)
	}
	if dc.Path == "" || dc.Domain == "" {
		return platform{}, fmt.Errorf("parse domain capabilities: no emulator")
	}
	p := platform{
		HostUUID:   caps.HostUUID,
		Arch:       caps.Arch,
		Machine:    machine,
		DomainType: dc.Domain,
		Emulator:   dc.Path,
		CPUMode:    chooseCPUMode(dc),
	}
	if machine == "" {
		p.Machine = dc.Machine
	}
	if dc.OS != nil && slices.ContainsFunc(dc.OS.Enums, func(e libvirtxml.DomainCapsEnum) bool {
		return e.Name == "firmware" && slices.Contains(e.Values, "efi")
	}) {
		p.Firmwares = append(p.Firmwares, instance.FirmwareUEFI)
	}
	if caps.Arch == archX86 {
		p.Firmwares = append(p.Firmwares, instance.FirmwareBIOS)
	}
	return p, nil
}

// chooseCPUMode prefers under KVM a processor like the host's, and under
// emulation all that the emulator can do: its default model lacks what recent
// distributions require.
func chooseCPUMode(dc libvirtxml.DomainCaps) string {
	if dc.CPU == nil {
		return ""
	}
	preferred := []string{"maximum"}
	if dc.Domain == domainTypeKVM {
		preferred = []string{"host-model", "host-passthrough"}
	}
	for _, want := range preferred {
		for _, mode := range dc.CPU.Modes {
			if mode.Name == want && mode.Supported == "yes" {
				return want
			}
		}
	}
	return ""
}
