package libvirtx

import (
	"fmt"
	"net"

	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// rootDevice is the guest's name of the overlay, by which it is found again.
const (
	rootDevice = "vda"
	seedDevice = "vdb"
)

// nic says where a domain's network card is plugged in; one of the two is set.
type nic struct {
	Bridge  string
	Network string
}

// domainXML describes d for DomainDefineXML. Disks are files with the paths
// that libvirt resolved, since only those get a rule of AppArmor's.
func domainXML(d instance.Definition, p platform, n nic) (string, error) {
	mac, err := macFromUUID(d.UUID)
	if err != nil {
		return "", err
	}
	mark, err := formatMarkQualified(d.Mark)
	if err != nil {
		return "", err
	}
	if d.VCPUs <= 0 || d.MemoryMiB <= 0 {
		return "", fmt.Errorf("encode domain: %d vcpus and %d MiB of memory", d.VCPUs, d.MemoryMiB)
	}
	dom := libvirtxml.Domain{
		Type:       p.DomainType,
		Name:       d.Name,
		UUID:       d.UUID,
		Metadata:   &libvirtxml.DomainMetadata{XML: mark},
		Memory:     &libvirtxml.DomainMemory{Unit: "MiB", Value: uint(d.MemoryMiB)},
		VCPU:       &libvirtxml.DomainVCPU{Value: uint(d.VCPUs)},
		OS:         osXML(d.Firmware, p),
		Features:   featuresXML(p),
		Clock:      &libvirtxml.DomainClock{Offset: "utc"},
		OnPoweroff: "destroy",
		OnReboot:   "restart",
		OnCrash:    "destroy",
		Devices: &libvirtxml.DomainDeviceList{
			Emulator:   p.Emulator,
			Disks:      []libvirtxml.DomainDisk{rootDiskXML(d.OverlayPath), seedDiskXML(d.SeedPath)},
			Interfaces: []libvirtxml.DomainInterface{interfaceXML(n, mac)},
			Serials:    []libvirtxml.DomainSerial{serialXML(d.ConsolePath)},
			Consoles:   []libvirtxml.DomainConsole{consoleXML()},
			Channels:   []libvirtxml.DomainChannel{agentChannelXML()},
			RNGs:       []libvirtxml.DomainRNG{rngXML()},
			MemBalloon: &libvirtxml.DomainMemBalloon{Model: "virtio"},
		},
	}
	if p.CPUMode != "" {
		dom.CPU = &libvirtxml.DomainCPU{Mode: p.CPUMode}
	}
	doc, err := dom.Marshal()
	if err != nil {
		return "", fmt.Errorf("encode domain: %w", err)
	}
	return doc, nil
}

// osXML leaves the choice of the UEFI image to libvirt, with secure boot off.
func osXML(fw instance.Firmware, p platform) *libvirtxml.DomainOS {
	out := &libvirtxml.DomainOS{
		Type:        &libvirtxml.DomainOSType{Arch: p.Arch, Machine: p.Machine, Type: "hvm"},
		BootDevices: []libvirtxml.DomainBootDevice{{Dev: "hd"}},
	}
	if fw != instance.FirmwareBIOS {
		out.Firmware = "efi"
		out.FirmwareInfo = &libvirtxml.DomainOSFirmwareInfo{
			Features: []libvirtxml.DomainOSFirmwareFeature{{Enabled: "no", Name: "secure-boot"}},
		}
	}
	return out
}

// featuresXML is nil where neither ACPI nor APIC exists.
func featuresXML(p platform) *libvirtxml.DomainFeatureList {
	switch p.Arch {
	case archX86:
		return &libvirtxml.DomainFeatureList{ACPI: &libvirtxml.DomainFeature{}, APIC: &libvirtxml.DomainFeatureAPIC{}}
	case archARM:
		return &libvirtxml.DomainFeatureList{ACPI: &libvirtxml.DomainFeature{}}
	default:
		return nil
	}
}

func rootDiskXML(path string) libvirtxml.DomainDisk {
	return libvirtxml.DomainDisk{
		Device: "disk",
		Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: formatQCOW2, Discard: "unmap"},
		Source: &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: path}},
		Target: &libvirtxml.DomainDiskTarget{Dev: rootDevice, Bus: "virtio"},
	}
}

// seedDiskXML is a virtio disk: cloud kernels without AHCI never see a SATA CD-ROM.
func seedDiskXML(path string) libvirtxml.DomainDisk {
	return libvirtxml.DomainDisk{
		Device:   "disk",
		Driver:   &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"},
		Source:   &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: path}},
		Target:   &libvirtxml.DomainDiskTarget{Dev: seedDevice, Bus: "virtio"},
		ReadOnly: &libvirtxml.DomainDiskReadOnly{},
	}
}

func interfaceXML(n nic, mac net.HardwareAddr) libvirtxml.DomainInterface {
	out := libvirtxml.DomainInterface{
		MAC:   &libvirtxml.DomainInterfaceMAC{Address: mac.String()},
		Model: &libvirtxml.DomainInterfaceModel{Type: "virtio"},
	}
	if n.Network != "" {
		out.Source = &libvirtxml.DomainInterfaceSource{
			Network: &libvirtxml.DomainInterfaceSourceNetwork{Network: n.Network},
		}
		return out
	}
	out.Source = &libvirtxml.DomainInterfaceSource{
		Bridge: &libvirtxml.DomainInterfaceSourceBridge{Bridge: n.Bridge},
	}
	return out
}

// serialXML is the console's history: the host appends to a file of the pool.
func serialXML(logPath string) libvirtxml.DomainSerial {
	out := libvirtxml.DomainSerial{
		Source: &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}},
		Target: &libvirtxml.DomainSerialTarget{Port: new(uint)},
	}
	if logPath != "" {
		out.Log = &libvirtxml.DomainChardevLog{File: logPath, Append: "on"}
	}
	return out
}

func consoleXML() libvirtxml.DomainConsole {
	return libvirtxml.DomainConsole{
		Source: &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}},
		Target: &libvirtxml.DomainConsoleTarget{Type: "serial", Port: new(uint)},
	}
}

// agentChannelXML names no socket path: libvirt picks one per domain.
func agentChannelXML() libvirtxml.DomainChannel {
	return libvirtxml.DomainChannel{
		Source: &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{}},
		Target: &libvirtxml.DomainChannelTarget{
			VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: "org.qemu.guest_agent.0"},
		},
	}
}

func rngXML() libvirtxml.DomainRNG {
	return libvirtxml.DomainRNG{
		Model: "virtio",
		Backend: &libvirtxml.DomainRNGBackend{
			Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"},
		},
	}
}

// macFromUUID derives a domain's MAC from its random UUID: its last six bytes,
// made locally administered and unicast, which leaves 46 bits. libvirt keeps
// addresses that start with fe for its own side of the tap and refuses them.
func macFromUUID(id string) (net.HardwareAddr, error) {
	u, err := uuid.Parse(id)
	if err != nil || len(id) != 36 {
		return nil, fmt.Errorf("domain uuid %q: want 36 characters of a UUID", id)
	}
	mac := net.HardwareAddr(u[10:16:16])
	mac[0] = mac[0]&^0x01 | 0x02
	if mac[0] == 0xfe {
		mac[0] = 0x02
	}
	return mac, nil
}
