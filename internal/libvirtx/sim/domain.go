package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"
)

// domain is stored, live, or both; one that is neither is forgotten.
type domain struct {
	name      string
	uuid      libvirt.UUID
	stored    *definition // nil: transient
	live      *definition // nil: off
	id        int32       // -1 while off
	state     libvirt.DomainState
	reason    int32
	startedAt time.Time
	autostart bool
	starts    int
	// nvramFrom is the UUID of the domain whose NVRAM the last start used.
	nvramFrom string
	held      []heldFile

	// What a test can give it.
	managedSave, snapshot, checkpoint bool
	answers                           map[libvirt.DomainInterfaceAddressesSource]answer
	silent                            map[libvirt.DomainInterfaceAddressesSource]bool
}

// heldFile is a disk that a running guest has open; it outlives its deletion.
type heldFile struct {
	file     *file
	readonly bool
	shared   bool
}

// current is what dumpxml shows without flags.
func (d *domain) current() *definition {
	if d.live != nil {
		return d.live
	}
	return d.stored
}

func (d *domain) handle() libvirt.Domain {
	return libvirt.Domain{Name: d.name, UUID: d.uuid, ID: d.id}
}

func (d *domain) set(state libvirt.DomainState, reason int32) { d.state, d.reason = state, reason }

// nvramPath is where libvirt keeps the NVRAM of a domain of that name: by
// name, which is how a new domain can meet an older one's.
func nvramPath(name string) string { return "/var/lib/libvirt/qemu/nvram/" + name + "_VARS.fd" }

// booted reports whether the guest got as far as its addresses.
func (h *Host) booted(d *domain) bool {
	return d.live != nil && !h.now().Before(d.startedAt.Add(h.opts.BootDelay))
}

// agentUp reports whether the guest's agent answers.
func (h *Host) agentUp(d *domain) bool {
	return h.booted(d) && d.live.agent && d.state == libvirt.DomainRunning &&
		!d.silent[libvirt.DomainInterfaceAddressesSrcAgent]
}

func (h *Host) domainNamed(name string) *domain {
	for _, d := range h.domains {
		if d.name == name {
			return d
		}
	}
	return nil
}

func (h *Host) sortedDomains() []*domain {
	out := make([]*domain, 0, len(h.domains))
	for _, d := range h.domains {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b *domain) int { return strings.Compare(a.name, b.name) })
	return out
}

// define stores def. One name is one UUID, whoever asks first.
func (h *Host) define(def *definition) (*domain, error) {
	name := def.xml.Name
	d := h.domains[def.uuid]
	if d != nil && d.name != name {
		return nil, fail(libvirt.ErrOperationFailed,
			"operation failed: domain '%s' is already defined with uuid %s", d.name, uuid.UUID(d.uuid))
	}
	if other := h.domainNamed(name); other != nil && other.uuid != def.uuid {
		return nil, fail(libvirt.ErrOperationFailed,
			"operation failed: domain '%s' already exists with uuid %s", name, uuid.UUID(other.uuid))
	}
	if d == nil {
		d = &domain{name: name, uuid: def.uuid, id: -1, state: libvirt.DomainShutoff}
		h.domains[def.uuid] = d
	}
	d.stored = def
	return d, nil
}

// start boots a stored domain.
func (h *Host) start(d *domain, flags libvirt.DomainCreateFlags) error {
	if d.live != nil {
		return invalid("domain is already running")
	}
	held, err := h.startable(d)
	if err != nil {
		d.set(libvirt.DomainShutoff, int32(libvirt.DomainShutoffFailed))
		return err
	}
	live, err := h.liveDefinition(d)
	if err != nil {
		return err
	}
	h.lastID++
	d.live, d.id, d.held = live, h.lastID, held
	d.startedAt = h.now()
	d.starts++
	id := int(d.id)
	d.live.xml.ID = &id
	h.bootFirmware(d, flags&libvirt.DomainStartResetNvram != 0)
	for _, l := range d.live.logs {
		h.logConsole(d, l)
	}
	reason := libvirt.DomainRunningBooted
	if d.managedSave {
		reason, d.managedSave = libvirt.DomainRunningRestored, false
	}
	d.set(libvirt.DomainRunning, int32(reason))
	switch {
	case h.opts.KVMPauses && live.xml.Type == "kvm":
		d.set(libvirt.DomainPaused, int32(h.opts.KVMPauseReason))
	case flags&libvirt.DomainStartPaused != 0:
		d.set(libvirt.DomainPaused, int32(libvirt.DomainPausedUser))
	}
	return nil
}

// startable checks what libvirt checks at a start: networks, bridges, firmware,
// disks and the locks that other guests hold on them.
func (h *Host) startable(d *domain) ([]heldFile, error) {
	for _, n := range d.stored.nics {
		if n.network != "" {
			network := h.networks[n.network]
			if network == nil {
				return nil, noNetwork(n.network)
			}
			if !network.active {
				return nil, invalid("network '%s' is not active", n.network)
			}
		}
	}
	if d.stored.efi && h.opts.NoFirmware {
		return nil, fail(libvirt.ErrOperationFailed, "operation failed: Unable to find any firmware to satisfy 'efi'")
	}
	var held []heldFile
	for _, want := range d.stored.disks {
		f, err := h.openChain(want.path)
		if err != nil {
			return nil, err
		}
		held = append(held, heldFile{file: f, readonly: want.readonly, shared: want.shared})
	}
	for _, n := range d.stored.nics {
		if n.bridge != "" && !slices.Contains(h.bridges, n.bridge) {
			return nil, fail(libvirt.ErrSystemError, "Cannot get interface MTU on '%s': No such device", n.bridge)
		}
	}
	if slices.ContainsFunc(held, h.locked) {
		return nil, fail(libvirt.ErrInternalError,
			"internal error: qemu unexpectedly closed the monitor: Failed to get \"write\" lock\nIs another process using the image?")
	}
	return held, nil
}

// locked reports whether a running guest's use of the file excludes this one.
func (h *Host) locked(mine heldFile) bool {
	for _, d := range h.domains {
		for _, theirs := range d.held {
			excludes := !mine.readonly || !theirs.readonly
			if theirs.file == mine.file && excludes && (!mine.shared || !theirs.shared) {
				return true
			}
		}
	}
	return false
}

// openChain finds a disk and all that it is an overlay of.
func (h *Host) openChain(path string) (*file, error) {
	f := h.fileAt(path)
	if f == nil {
		return nil, fail(libvirt.ErrSystemError,
			"Cannot access storage file '%s' (as uid:64055, gid:64055): No such file or directory", path)
	}
	if f.dir {
		return nil, fail(libvirt.ErrInternalError,
			"internal error: process exited while connecting to monitor: 'file' driver requires '%s' to be a regular file", path)
	}
	if f.backing != "" {
		if _, err := h.openChain(f.backing); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// bootFirmware gives an UEFI guest its NVRAM: an older file of that name
// unless it is to be reset.
func (h *Host) bootFirmware(d *domain, reset bool) {
	if !d.live.efi {
		return
	}
	path := nvramPath(d.name)
	if _, ok := h.nvram[path]; !ok || reset {
		h.nvram[path] = uuid.UUID(d.uuid).String()
	}
	d.nvramFrom = h.nvram[path]
	os := d.live.xml.OS
	os.Firmware, os.FirmwareInfo = "", nil
	os.Loader = &libvirtxml.DomainLoader{Path: firmwareCode, Readonly: "yes", Type: "pflash"}
	os.NVRam = &libvirtxml.DomainNVRam{NVRam: path, Template: firmwareVars}
}

// liveDefinition copies the stored one and adds what only a running domain has.
func (h *Host) liveDefinition(d *domain) (*definition, error) {
	doc, err := d.stored.text(false)
	if err != nil {
		return nil, err
	}
	var x libvirtxml.Domain
	if err := x.Unmarshal(doc); err != nil {
		return nil, fail(libvirt.ErrInternalError, "internal error: %v", err)
	}
	live := &definition{
		xml: &x, meta: d.stored.meta, uuid: d.uuid, efi: d.stored.efi, agent: d.stored.agent,
		disks: d.stored.disks, nics: slices.Clone(d.stored.nics), logs: d.stored.logs,
	}
	for i := range live.nics {
		n := &live.nics[i]
		n.tap = fmt.Sprintf("vnet%d", h.lastNIC)
		h.lastNIC++
		x.Devices.Interfaces[i].Target = &libvirtxml.DomainInterfaceTarget{Dev: n.tap}
		if n.network != "" {
			x.Devices.Interfaces[i].Source.Network.Bridge = h.networks[n.network].bridge
		}
	}
	for i, c := range x.Devices.Channels {
		if c.Target != nil && c.Target.VirtIO != nil && (c.Source == nil || c.Source.UNIX == nil || c.Source.UNIX.Path == "") {
			path := fmt.Sprintf("/var/lib/libvirt/qemu/channel/target/domain-%d-%s/%s", h.lastID+1, d.name, c.Target.VirtIO.Name)
			x.Devices.Channels[i].Source = &libvirtxml.DomainChardevSource{
				UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind", Path: path},
			}
		}
	}
	return live, nil
}

// stop ends a running domain; a transient one is forgotten.
func (h *Host) stop(d *domain, reason libvirt.DomainShutoffReason) {
	if h.booted(d) {
		h.written(d)
	}
	for _, n := range d.live.nics {
		h.addrs.release(n.mac)
	}
	d.live, d.held, d.id = nil, nil, -1
	d.set(libvirt.DomainShutoff, int32(reason))
	if d.stored == nil {
		delete(h.domains, d.uuid)
	}
}

// written has a guest's disks be as long as a first write makes them, which is
// all that can be told of its content.
func (h *Host) written(d *domain) {
	for i, disk := range d.live.disks {
		// The one that it was started with: another may have its name by now.
		f := d.held[i].file
		if p := h.poolOf(disk.path); p != nil && !disk.readonly && f.format == "qcow2" && f.content.size < qcow2WrittenBytes {
			f.write(p, qcow2WrittenBytes-blockBytes, make([]byte, blockBytes), h.now())
		}
	}
}

// undefine forgets the stored definition; a running domain goes on as transient.
func (h *Host) undefine(d *domain, flags libvirt.DomainUndefineFlagsValues) error {
	path := nvramPath(d.name)
	_, nvram := h.nvram[path]
	nvram = nvram && d.stored != nil && d.stored.efi
	off := d.live == nil
	switch {
	case d.stored == nil:
		return invalid("cannot undefine transient domain")
	case off && d.snapshot && flags&libvirt.DomainUndefineSnapshotsMetadata == 0:
		return invalid("cannot delete inactive domain with 1 snapshots")
	case off && d.checkpoint && flags&libvirt.DomainUndefineCheckpointsMetadata == 0:
		return invalid("cannot delete inactive domain with 1 checkpoints")
	case d.managedSave && flags&libvirt.DomainUndefineManagedSave == 0:
		return invalid("Refusing to undefine while domain managed save image exists")
	case nvram && flags&(libvirt.DomainUndefineNvram|libvirt.DomainUndefineKeepNvram) == 0:
		return invalid("cannot undefine domain with nvram")
	}
	if nvram && flags&libvirt.DomainUndefineNvram != 0 {
		delete(h.nvram, path)
	}
	d.stored, d.autostart, d.managedSave = nil, false, false
	if off {
		delete(h.domains, d.uuid)
	}
	return nil
}
