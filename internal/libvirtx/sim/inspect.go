package sim

import (
	"errors"
	"slices"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
)

// DomainInfo is a domain as a test sees it.
type DomainInfo struct {
	Name       string
	UUID       string
	State      libvirt.DomainState
	Reason     int32
	Running    bool
	Persistent bool
	Autostart  bool
	// XML is what dumpxml shows, StoredXML the stored definition ("" for a transient one).
	XML       string
	StoredXML string
	// Starts counts how often it was started.
	Starts int
	// NVRAMFrom is the UUID of the domain for which the NVRAM that its last
	// start used was made; "" under BIOS.
	NVRAMFrom string
}

// VolumeInfo is a file of the pool's directory as a test sees it.
type VolumeInfo struct {
	Name       string
	Path       string
	Format     string
	Capacity   uint64
	Allocation uint64
	// Physical is the file's length.
	Physical uint64
	Backing  string
	// SHA256 is the content's checksum in hex, "" unless it was uploaded in one go.
	SHA256 string
	// Listed is false for a file that libvirt has not scanned.
	Listed bool
}

// ErrNoSuch is what the helpers for tests fail with when they are given a name
// that is not there.
var ErrNoSuch = errors.New("no such object in the simulation")

// Domains returns all domains by name.
func (h *Host) Domains() []DomainInfo {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]DomainInfo, 0, len(h.domains))
	for _, d := range h.sortedDomains() {
		out = append(out, h.info(d))
	}
	return out
}

// Domain returns the domain of that name.
func (h *Host) Domain(name string) (DomainInfo, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.domainNamed(name)
	if d == nil {
		return DomainInfo{}, false
	}
	return h.info(d), true
}

func (h *Host) info(d *domain) DomainInfo {
	out := DomainInfo{
		Name: d.name, UUID: uuid.UUID(d.uuid).String(),
		State: d.state, Reason: d.reason,
		Running: d.live != nil, Persistent: d.stored != nil,
		Autostart: d.autostart, Starts: d.starts, NVRAMFrom: d.nvramFrom,
	}
	// Rendering fails only for XML that could not have been defined.
	out.XML, _ = d.current().text(d.live != nil && h.agentUp(d))
	if d.stored != nil {
		out.StoredXML, _ = d.stored.text(false)
	}
	return out
}

// Volumes returns all files of the pool by name, scanned or not.
func (h *Host) Volumes() []VolumeInfo {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.primary
	out := make([]VolumeInfo, 0, len(p.files))
	for _, f := range p.sortedFiles() {
		out = append(out, p.info(f))
	}
	return out
}

// Volume returns the file of that name.
func (h *Host) Volume(name string) (VolumeInfo, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.primary.files[name]
	if f == nil {
		return VolumeInfo{}, false
	}
	return h.primary.info(f), true
}

func (p *pool) info(f *file) VolumeInfo {
	return VolumeInfo{
		Name: f.name, Path: p.path(f.name), Format: f.format,
		Capacity: f.capacity, Allocation: f.allocation, Physical: f.content.size,
		Backing: f.backing, SHA256: f.content.sha256(), Listed: f.scanned,
	}
}

// VolumeBytes returns a file's content; false when there is none of that name
// or it is larger than 1 MiB, of which only the head is kept.
func (h *Host) VolumeBytes(name string) ([]byte, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.primary.files[name]
	if f == nil {
		return nil, false
	}
	return f.content.whole()
}

// NVRAM returns for which domain (its UUID) the NVRAM file of that domain name
// was made; false when there is no such file.
func (h *Host) NVRAM(domain string) (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id, ok := h.nvram[nvramPath(domain)]
	return id, ok
}

// onDomain runs change on the domain of that name.
func (h *Host) onDomain(name string, change func(*domain)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.domainNamed(name)
	if d == nil {
		return ErrNoSuch
	}
	change(d)
	return nil
}

// onRunning is onDomain for a domain that is not off.
func (h *Host) onRunning(name string, change func(*domain)) error {
	running := false
	err := h.onDomain(name, func(d *domain) {
		if running = d.live != nil; running {
			change(d)
		}
	})
	if err == nil && !running {
		return ErrNoSuch
	}
	return err
}

// Boot brings a running guest to the end of its boot at once: every source
// tells its address from now on.
func (h *Host) Boot(name string) error {
	return h.onRunning(name, func(d *domain) {
		d.startedAt = h.now().Add(-h.opts.BootDelay - h.opts.ARPDelay)
	})
}

// Pause suspends a running guest for a reason (DomainPausedIoerror: disk full).
func (h *Host) Pause(name string, reason libvirt.DomainPausedReason) error {
	return h.onRunning(name, func(d *domain) { d.set(libvirt.DomainPaused, int32(reason)) })
}

// Resume ends Pause.
func (h *Host) Resume(name string) error {
	return h.onRunning(name, func(d *domain) { d.set(libvirt.DomainRunning, int32(libvirt.DomainRunningUnpaused)) })
}

// SetState makes the host report any state of a running domain.
func (h *Host) SetState(name string, state libvirt.DomainState, reason int32) error {
	return h.onRunning(name, func(d *domain) { d.set(state, reason) })
}

// PowerOff has the guest shut itself down.
func (h *Host) PowerOff(name string) error {
	return h.onRunning(name, func(d *domain) { h.stop(d, libvirt.DomainShutoffShutdown) })
}

// Crash ends the guest's process.
func (h *Host) Crash(name string) error {
	return h.onRunning(name, func(d *domain) { h.stop(d, libvirt.DomainShutoffCrashed) })
}

// Silence keeps an address source from ever knowing this domain (an image
// without agent, a network without DHCP), or ends that.
func (h *Host) Silence(name string, source libvirt.DomainInterfaceAddressesSource, silent bool) error {
	return h.onDomain(name, func(d *domain) {
		if d.silent == nil {
			d.silent = map[libvirt.DomainInterfaceAddressesSource]bool{}
		}
		d.silent[source] = silent
	})
}

// Answer makes an address source answer this, whatever the guest's state, as
// long as it runs.
func (h *Host) Answer(name string, source libvirt.DomainInterfaceAddressesSource, says []libvirt.DomainInterface, err error) error {
	return h.onDomain(name, func(d *domain) {
		if d.answers == nil {
			d.answers = map[libvirt.DomainInterfaceAddressesSource]answer{}
		}
		d.answers[source] = answer{interfaces: says, err: err}
	})
}

// Leftovers gives a domain what makes an undefine without flags fail.
type Leftovers struct{ ManagedSave, Snapshot, Checkpoint bool }

// SetLeftovers sets them.
func (h *Host) SetLeftovers(name string, l Leftovers) error {
	return h.onDomain(name, func(d *domain) {
		d.managedSave, d.snapshot, d.checkpoint = l.ManagedSave, l.Snapshot, l.Checkpoint
	})
}

// AddForeignDomain defines a domain as somebody else would, and starts it when
// start is set, without passing the gate.
func (h *Host) AddForeignDomain(xml string, start bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	def, err := h.parseDefinition(xml, false)
	if err != nil {
		return err
	}
	d, err := h.define(def)
	if err != nil || !start {
		return err
	}
	return h.start(d, 0)
}

// Reboot is a power cut of the host: connections, guests and transient domains
// are gone, autostart domains start. Those that cannot start stay off.
func (h *Host) Reboot() {
	h.Drop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.sortedDomains() {
		if d.live != nil {
			h.stop(d, libvirt.DomainShutoffUnknown)
		}
	}
	for _, d := range h.sortedDomains() {
		if d.autostart {
			_ = h.start(d, 0) // as libvirt does, it stays "shut off (failed)"
		}
	}
}

// AddVolume puts a file into the pool that libvirt has scanned.
func (h *Host) AddVolume(name string, bytes []byte) { h.addFile(name, bytes, true) }

// AddFile puts a file into the pool's directory that libvirt has not scanned.
func (h *Host) AddFile(name string, bytes []byte) { h.addFile(name, bytes, false) }

func (h *Host) addFile(name string, bytes []byte, scanned bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	f := &file{name: name, scanned: scanned, modified: now, accessed: now}
	f.write(h.primary, 0, bytes, now)
	f.probe()
	h.primary.files[name] = f
	if scanned {
		h.primary.account(f.allocation)
	}
}

// RemoveVolume deletes a volume as another client of libvirt would.
func (h *Host) RemoveVolume(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.primary
	f := p.files[name]
	if f == nil {
		return ErrNoSuch
	}
	delete(p.files, name)
	p.unaccount(f.allocation)
	return nil
}

// SetVolumeTime sets when a file was last changed.
func (h *Host) SetVolumeTime(name string, modified time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.primary.files[name]
	if f == nil {
		return ErrNoSuch
	}
	f.modified = modified
	return nil
}

// SetPoolActive starts or stops the pool. Its files stay.
func (h *Host) SetPoolActive(active bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.primary.active = active
	if active {
		h.primary.look()
	}
}

// RemovePool makes libvirt forget the pool.
func (h *Host) RemovePool() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pools = slices.DeleteFunc(h.pools, func(p *pool) bool { return p == h.primary })
}

// FillPool has something else take all but leave bytes of the pool's file
// system, or give back what it took for more. The figures that libvirt reports
// follow at the next refresh.
func (h *Host) FillPool(leave uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.primary
	p.other = 0
	p.other = p.free() - min(p.free(), leave)
}

// AddPool adds an active pool beside the first, which all helpers are about.
func (h *Host) AddPool(name, dir string, capacity uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pools = append(h.pools, newPool(name, dir, capacity, h.idFor("pool/"+name)))
}
