package sim

import (
	"context"
	"strings"
	"text/template"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
)

// What the simulated host runs guests with.
const (
	arch         = "x86_64"
	emulator     = "/usr/bin/qemu-system-x86_64"
	machineQ35   = "pc-q35-7.2"
	machinePC    = "pc-i440fx-7.2"
	firmwareCode = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	firmwareVars = "/usr/share/OVMF/OVMF_VARS_4M.fd"
)

// canonicalMachine resolves libvirt's short machine names.
func canonicalMachine(m string) string {
	switch m {
	case "q35":
		return machineQ35
	case "pc", "":
		return machinePC
	}
	return m
}

var capabilitiesXML = template.Must(template.New("capabilities").Parse(`<capabilities>

  <host>
    <uuid>{{.UUID}}</uuid>
    <cpu>
      <arch>x86_64</arch>
      <model>EPYC-Milan</model>
      <vendor>AMD</vendor>
      <topology sockets='1' dies='1' cores='8' threads='1'/>
      <pages unit='KiB' size='4'/>
    </cpu>
    <power_management/>
    <iommu support='no'/>
    <topology>
      <cells num='1'>
        <cell id='0'>
          <memory unit='KiB'>{{.MemoryKiB}}</memory>
          <cpus num='8'/>
        </cell>
      </cells>
    </topology>
    <secmodel>
      <model>none</model>
      <doi>0</doi>
    </secmodel>
  </host>

  <guest>
    <os_type>hvm</os_type>
    <arch name='i686'>
      <wordsize>32</wordsize>
      <emulator>/usr/bin/qemu-system-i386</emulator>
      <machine maxCpus='255'>pc-i440fx-7.2</machine>
      <machine canonical='pc-i440fx-7.2' maxCpus='255'>pc</machine>
      <machine maxCpus='288'>pc-q35-7.2</machine>
      <machine canonical='pc-q35-7.2' maxCpus='288'>q35</machine>
      <domain type='qemu'/>
{{- if .KVM}}
      <domain type='kvm'/>
{{- end}}
    </arch>
    <features>
      <pae/>
      <acpi default='on' toggle='yes'/>
    </features>
  </guest>

  <guest>
    <os_type>hvm</os_type>
    <arch name='x86_64'>
      <wordsize>64</wordsize>
      <emulator>/usr/bin/qemu-system-x86_64</emulator>
      <machine maxCpus='255'>pc-i440fx-7.2</machine>
      <machine canonical='pc-i440fx-7.2' maxCpus='255'>pc</machine>
      <machine maxCpus='288'>pc-q35-7.2</machine>
      <machine canonical='pc-q35-7.2' maxCpus='288'>q35</machine>
      <domain type='qemu'/>
{{- if .KVM}}
      <domain type='kvm'/>
{{- end}}
    </arch>
    <features>
      <acpi default='on' toggle='yes'/>
      <apic default='on' toggle='no'/>
      <cpuselection/>
      <deviceboot/>
      <disksnapshot default='on' toggle='no'/>
    </features>
  </guest>

</capabilities>
`))

var domainCapabilitiesXML = template.Must(template.New("domainCapabilities").Parse(`<domainCapabilities>
  <path>/usr/bin/qemu-system-x86_64</path>
  <domain>{{.Type}}</domain>
  <machine>{{.Machine}}</machine>
  <arch>x86_64</arch>
  <vcpu max='255'/>
  <iothreads supported='yes'/>
  <os supported='yes'>
{{- if .Firmware}}
    <enum name='firmware'>
      <value>efi</value>
    </enum>
{{- else}}
    <enum name='firmware'/>
{{- end}}
    <loader supported='yes'>
{{- if .Firmware}}
      <value>{{.Code}}</value>
{{- end}}
      <enum name='type'>
        <value>rom</value>
        <value>pflash</value>
      </enum>
      <enum name='readonly'>
        <value>yes</value>
        <value>no</value>
      </enum>
      <enum name='secure'>
        <value>no</value>
      </enum>
    </loader>
  </os>
  <cpu>
    <mode name='host-passthrough' supported='{{if eq .Type "kvm"}}yes{{else}}no{{end}}'/>
    <mode name='maximum' supported='yes'/>
    <mode name='host-model' supported='yes'>
      <model fallback='forbid'>EPYC</model>
      <vendor>AMD</vendor>
    </mode>
    <mode name='custom' supported='yes'>
      <model usable='yes'>qemu64</model>
    </mode>
  </cpu>
  <devices>
    <disk supported='yes'>
      <enum name='bus'>
        <value>scsi</value>
        <value>virtio</value>
        <value>sata</value>
      </enum>
    </disk>
    <channel supported='yes'>
      <enum name='type'>
        <value>pty</value>
        <value>unix</value>
      </enum>
    </channel>
  </devices>
</domainCapabilities>
`))

// render fills a template whose fields are all there.
func render(t *template.Template, data any) (string, error) {
	var b strings.Builder
	if err := t.Execute(&b, data); err != nil {
		return "", fail(libvirt.ErrInternalError, "internal error: %v", err)
	}
	return b.String(), nil
}

func (c *conn) ConnectGetLibVersion(ctx context.Context) (version uint64, err error) {
	err = c.call(ctx, "ConnectGetLibVersion", "", func() error {
		version = c.host.opts.LibVersion
		return nil
	})
	return version, err
}

func (c *conn) ConnectGetHostname(ctx context.Context) (name string, err error) {
	err = c.call(ctx, "ConnectGetHostname", "", func() error {
		name = c.host.opts.Name
		return nil
	})
	return name, err
}

func (c *conn) ConnectGetCapabilities(ctx context.Context) (doc string, err error) {
	h := c.host
	err = c.call(ctx, "ConnectGetCapabilities", "", func() (err error) {
		doc, err = render(capabilitiesXML, map[string]any{
			"UUID":      uuid.UUID(h.idFor("host")).String(),
			"MemoryKiB": h.opts.MemoryBytes / 1024,
			"KVM":       !h.opts.NoKVM,
		})
		return err
	})
	return doc, err
}

func (c *conn) ConnectGetDomainCapabilities(
	ctx context.Context, wantEmulator, wantArch, machine, virtType string,
) (doc string, err error) {
	h := c.host
	err = c.call(ctx, "ConnectGetDomainCapabilities", "", func() (err error) {
		if virtType == "" {
			virtType = "kvm"
			if h.opts.NoKVM {
				virtType = "qemu"
			}
		}
		if err := h.checkDomainCapabilities(wantEmulator, wantArch, machine, virtType); err != nil {
			return err
		}
		doc, err = render(domainCapabilitiesXML, map[string]any{
			"Type": virtType, "Machine": canonicalMachine(machine), "Firmware": !h.opts.NoFirmware, "Code": firmwareCode,
		})
		return err
	})
	return doc, err
}

func (h *Host) checkDomainCapabilities(wantEmulator, wantArch, machine, virtType string) error {
	known := canonicalMachine(machine)
	switch {
	case wantEmulator != "" && wantEmulator != emulator:
		return fail(libvirt.ErrSystemError, "Cannot check QEMU binary %s: No such file or directory", wantEmulator)
	case wantArch != "" && wantArch != arch:
		return unsupported("unable to find any emulator to serve '%s' architecture", wantArch)
	case known != machineQ35 && known != machinePC:
		return fail(libvirt.ErrInvalidArg, "invalid argument: the machine '%s' is not supported by emulator '%s'", machine, emulator)
	case virtType != "qemu" && (virtType != "kvm" || h.opts.NoKVM):
		return fail(libvirt.ErrInvalidArg, "invalid argument: Emulator '%s' does not support virt type '%s'", emulator, virtType)
	}
	return nil
}

func (c *conn) NodeGetFreeMemory(ctx context.Context) (free uint64, err error) {
	err = c.call(ctx, "NodeGetFreeMemory", "", func() error {
		free = c.host.opts.MemoryBytes
		for _, d := range c.host.domains {
			if d.live != nil {
				free -= min(free, uint64(d.live.xml.Memory.Value)*1024)
			}
		}
		return nil
	})
	return free, err
}
