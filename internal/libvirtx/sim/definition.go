package sim

import (
	"crypto/rand"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"
)

// definition is a parsed domain, stored or live. Apart from its metadata,
// which is replaced whole, it does not change.
type definition struct {
	xml      *libvirtxml.Domain
	meta     metadata
	uuid     libvirt.UUID
	efi      bool
	agent    bool
	disks    []disk
	nics     []nic
	logs     []consoleLog
	rendered map[bool]string // dumpxml by whether the agent is connected; nil when stale
}

type disk struct {
	path     string
	format   string
	readonly bool
	shared   bool
}

// nic has network or bridge, by what it is plugged into; tap only while live.
type nic struct {
	mac     string
	network string
	bridge  string
	tap     string
}

type consoleLog struct {
	path   string
	append bool
}

const agentChannel = "org.qemu.guest_agent.0"

// domainTypes are the names libvirt knows; the simulated host can do qemu and
// kvm.
var domainTypes = []string{"qemu", "kvm", "xen", "lxc", "vz", "bhyve", "test", "vmware", "hyperv", "hvf"}

// parseDefinition does what libvirt does with the XML of a define: it refuses
// what libvirt refuses, drops what it does not know, and fills in defaults.
func (h *Host) parseDefinition(doc string, validate bool) (*definition, error) {
	if err := wellFormed(doc, "domain", "domain_definition"); err != nil {
		return nil, err
	}
	var x libvirtxml.Domain
	if err := x.Unmarshal(doc); err != nil {
		return nil, xmlFault("%v", err)
	}
	if validate {
		if err := knownElements(doc, &x); err != nil {
			return nil, err
		}
	}
	if err := h.checkDomain(&x); err != nil {
		return nil, err
	}
	d := &definition{xml: &x}
	if x.Metadata != nil {
		d.meta, _ = parseElements(x.Metadata.XML) // part of a document that was well formed
	}
	if err := h.fillDefaults(d); err != nil {
		return nil, err
	}
	return d, d.readDevices()
}

// wellFormed checks syntax (35) and the root element (27).
func wellFormed(doc, root, what string) error {
	d := xml.NewDecoder(strings.NewReader(doc))
	first := ""
	for {
		tok, err := d.Token()
		switch t := tok.(type) {
		case xml.StartElement:
			if first == "" {
				first = t.Name.Local
			}
		}
		if errors.Is(err, io.EOF) && first != "" {
			break
		}
		if err != nil {
			return fail(libvirt.ErrXMLDetail, "(%s):1: %v", what, err)
		}
	}
	if first != root {
		return xmlFault("expecting root element of '%s', not '%s'", root, first)
	}
	return nil
}

// knownElements stands in for the schema that VIR_DOMAIN_DEFINE_VALIDATE
// checks: an element that libvirtxml does not know is lost on the way through it.
func knownElements(doc string, x *libvirtxml.Domain) error {
	again, err := x.Marshal()
	if err != nil {
		return xmlFault("%v", err)
	}
	known := elementPaths(again)
	for p := range elementPaths(doc) {
		if !known[p] {
			return fail(libvirt.ErrXMLInvalidSchema,
				"XML document failed to validate against schema: extra content: %s", p)
		}
	}
	return nil
}

// elementPaths collects the paths of all elements outside of metadata.
func elementPaths(doc string) map[string]bool {
	paths, at := map[string]bool{}, []string{}
	d := xml.NewDecoder(strings.NewReader(doc))
	for {
		tok, err := d.Token()
		if err != nil {
			return paths
		}
		switch t := tok.(type) {
		case xml.StartElement:
			if t.Name.Local == "metadata" && len(at) == 1 {
				if d.Skip() != nil {
					return paths
				}
				continue
			}
			at = append(at, t.Name.Local)
			paths[strings.Join(at, "/")] = true
		case xml.EndElement:
			at = at[:len(at)-1]
		}
	}
}

func (h *Host) checkDomain(x *libvirtxml.Domain) error {
	switch {
	case x.Type == "":
		return fail(libvirt.ErrInternalError, "internal error: missing domain type attribute")
	case !slices.Contains(domainTypes, x.Type):
		return unsupported("invalid domain type %s", x.Type)
	case x.Name == "":
		return fail(libvirt.ErrNoName, "missing name information")
	case strings.Contains(x.Name, "/"):
		return xmlFault("name %s cannot contain '/'", x.Name)
	case x.OS == nil || x.OS.Type == nil || x.OS.Type.Type == "":
		return xmlFault("an os <type> must be specified")
	case x.Memory == nil || x.Memory.Value == 0:
		return xmlFault("Memory size must be specified via <memory> or in the <numa> configuration")
	case x.OS.Type.Arch != "" && x.OS.Type.Arch != arch:
		return unsupported("No emulator found for arch '%s'", x.OS.Type.Arch)
	case x.Devices != nil && x.Devices.Emulator != "" && x.Devices.Emulator != emulator:
		return fail(libvirt.ErrSystemError, "Cannot check QEMU binary %s: No such file or directory", x.Devices.Emulator)
	case x.Type != "qemu" && (x.Type != "kvm" || h.opts.NoKVM):
		return unsupported("Emulator '%s' does not support virt type '%s'", emulator, x.Type)
	}
	return nil
}

func (h *Host) fillDefaults(d *definition) error {
	x := d.xml
	if x.UUID == "" {
		x.UUID = uuid.NewString()
	}
	id, err := uuid.Parse(x.UUID)
	if err != nil {
		return xmlFault("malformed uuid element")
	}
	x.UUID, d.uuid = id.String(), libvirt.UUID(id)
	x.ID = nil
	kib, err := inBytes(uint64(x.Memory.Value), x.Memory.Unit, 1024)
	if err != nil {
		return err
	}
	kib /= 1024
	x.Memory = &libvirtxml.DomainMemory{Unit: "KiB", Value: uint(kib)}
	if x.CurrentMemory == nil {
		x.CurrentMemory = &libvirtxml.DomainCurrentMemory{Unit: "KiB", Value: uint(kib)}
	}
	if x.VCPU == nil {
		x.VCPU = &libvirtxml.DomainVCPU{Value: 1}
	}
	def(&x.VCPU.Placement, "static")
	def(&x.OS.Type.Arch, arch)
	x.OS.Type.Machine = canonicalMachine(x.OS.Type.Machine)
	d.efi = x.OS.Firmware == "efi"
	if x.Clock == nil {
		x.Clock = &libvirtxml.DomainClock{Offset: "utc"}
	}
	def(&x.OnPoweroff, "destroy")
	def(&x.OnReboot, "restart")
	def(&x.OnCrash, "destroy")
	if x.Devices == nil {
		x.Devices = &libvirtxml.DomainDeviceList{}
	}
	def(&x.Devices.Emulator, emulator)
	return nil
}

// readDevices collects what the simulation acts on, and gives each network
// card without a MAC one.
func (d *definition) readDevices() error {
	targets := map[string]bool{}
	for _, in := range d.xml.Devices.Disks {
		if in.Target == nil || in.Target.Dev == "" {
			return fail(libvirt.ErrNoTarget, "missing target information for device")
		}
		if targets[in.Target.Dev] {
			return xmlFault("target '%s' duplicated for disk sources", in.Target.Dev)
		}
		targets[in.Target.Dev] = true
		if in.Source == nil || in.Source.File == nil {
			continue
		}
		out := disk{path: in.Source.File.File, readonly: in.ReadOnly != nil, shared: in.Shareable != nil}
		if in.Driver != nil {
			out.format = in.Driver.Type
		}
		d.disks = append(d.disks, out)
	}
	for i := range d.xml.Devices.Interfaces {
		in := &d.xml.Devices.Interfaces[i]
		if in.MAC == nil {
			in.MAC = &libvirtxml.DomainInterfaceMAC{Address: randomMAC()}
		}
		out := nic{mac: strings.ToLower(in.MAC.Address)}
		if in.Source != nil && in.Source.Network != nil {
			out.network = in.Source.Network.Network
		}
		if in.Source != nil && in.Source.Bridge != nil {
			out.bridge = in.Source.Bridge.Bridge
		}
		d.nics = append(d.nics, out)
	}
	for _, c := range d.xml.Devices.Channels {
		if c.Target != nil && c.Target.VirtIO != nil && c.Target.VirtIO.Name == agentChannel {
			d.agent = true
		}
	}
	for _, s := range d.xml.Devices.Serials {
		if s.Log != nil && s.Log.File != "" {
			d.logs = append(d.logs, consoleLog{path: s.Log.File, append: s.Log.Append == "on"})
		}
	}
	return nil
}

// randomMAC is in QEMU's range, as libvirt's are.
func randomMAC() string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("52:54:00:%02x:%02x:%02x", b[0], b[1], b[2])
}

// text renders the definition as dumpxml does.
func (d *definition) text(agentUp bool) (string, error) {
	if s, ok := d.rendered[agentUp]; ok {
		return s, nil
	}
	d.xml.Metadata = nil
	if len(d.meta) > 0 {
		d.xml.Metadata = &libvirtxml.DomainMetadata{XML: d.meta.inner()}
	}
	for i := range d.xml.Devices.Channels {
		if t := d.xml.Devices.Channels[i].Target; d.xml.ID != nil && t != nil && t.VirtIO != nil {
			t.VirtIO.State = "disconnected"
			if agentUp {
				t.VirtIO.State = "connected"
			}
		}
	}
	s, err := d.xml.Marshal()
	if err != nil {
		return "", fail(libvirt.ErrInternalError, "internal error: %v", err)
	}
	if d.rendered == nil {
		d.rendered = map[bool]string{}
	}
	d.rendered[agentUp] = s + "\n"
	return d.rendered[agentUp], nil
}

// setMeta replaces the metadata.
func (d *definition) setMeta(m metadata) { d.meta, d.rendered = m, nil }
