package instance

import (
	"context"
	"io"
	"time"
)

// Hosts are the configured machines.
type Hosts interface {
	// Host returns the host of that name, false when it is not configured.
	Host(name string) (Host, bool)
	// All returns every host in the order of the configuration.
	All() []Host
}

// Host is one configured machine as the Service needs it. All methods are safe
// for concurrent use, return promptly when ctx ends (with Timeout or
// Cancelled), have limits of their own, and fail with an *Error that names the
// host. Besides the reasons listed with each, any method may fail with
// Unreachable, Timeout, AuthenticationFailed, HostKeyRejected,
// CredentialsUnavailable, LibvirtUnavailable or LibvirtError.
type Host interface {
	HostMachines
	HostVolumes

	// Name is the configured name.
	Name() string
	// InMaintenance reports whether new instances are refused here.
	InMaintenance() bool
	// Preflight checks what can be known before a define: pool and network
	// active, bridge there as far as libvirt can say, emulator, firmware.
	// Reasons: PoolNotFound, PoolNotActive, NetworkNotFound, NetworkNotActive,
	// FirmwareMissing, Misconfigured.
	Preflight(ctx context.Context, fw Firmware) error
	// Check looks at the host over a fresh connection of its own, never a
	// pooled one. It never fails: what went wrong is in the entry, or else that
	// the host is in maintenance.
	Check(ctx context.Context) HostHealth
}

// HostMachines are the machines of one host. Find, List and what they return
// speak of every domain or only ours as said; the Service decides by Mark.
type HostMachines interface {
	// Find reads the machine of that name, ours or not. Absent: InstanceNotFound.
	Find(ctx context.Context, name string) (Machine, error)
	// FindWithAddresses is Find, with Machine.Addresses asked for side by side.
	// An address call that fails is no answer, never an error.
	FindWithAddresses(ctx context.Context, name string) (Machine, error)
	// List reads all machines that carry our owner's mark, addresses included,
	// by name. One that vanishes or cannot be parsed is counted in Skipped; any
	// other failed read fails the list.
	List(ctx context.Context) (Listing, error)
	// Read reads m again by its UUID, the name not being looked up. Gone: InstanceNotFound.
	Read(ctx context.Context, m Machine) (Machine, error)
	// Define makes d known to the host, atomically: a machine of that name with
	// another UUID makes it fail with ErrAlreadyDefined in the chain. Repeating it
	// with the same Definition is success.
	Define(ctx context.Context, d Definition) error
	// SetAutostart says whether m comes back after its host rebooted. Gone: InstanceNotFound.
	SetAutostart(ctx context.Context, m Machine, on bool) error
	// Start boots a defined machine, with fresh NVRAM when fresh. A machine
	// that already runs is success. It returns once the host says started, and
	// does not look at what became of it. Reasons: StartFailed, Vanished.
	Start(ctx context.Context, m Machine, fresh bool) error
	// Stop pulls the plug. A machine that is off or gone is success.
	Stop(ctx context.Context, m Machine) error
	// SetMark replaces the mark of m, live and stored. Gone: InstanceNotFound.
	SetMark(ctx context.Context, m Machine, mark Mark) error
	// RootDiskInPool reports whether m's root disk belongs into the configured
	// pool, be it there or not: what is elsewhere is not this host's to give up.
	// True without a root disk, and without the pool.
	RootDiskInPool(ctx context.Context, m Machine) (bool, error)
	// Undefine forgets the machine with its NVRAM, managed save, snapshot and
	// checkpoint records. Gone is success.
	Undefine(ctx context.Context, m Machine) error
}

// HostVolumes are the volumes of the host's configured pool. A pool that is
// absent or stopped is PoolNotFound or PoolNotActive.
type HostVolumes interface {
	// Volumes lists those whose name starts with prefix.
	Volumes(ctx context.Context, prefix string) ([]Volume, error)
	// Volume reads one. Absent: ErrNoVolume in the chain.
	Volume(ctx context.Context, name string) (Volume, error)
	// CreateVolume makes one, atomically: a volume of that name makes it fail
	// with ErrVolumeExists in the chain. Out of room: PoolFull.
	CreateVolume(ctx context.Context, v NewVolume) (Volume, error)
	// Upload fills a volume with exactly length bytes of src; fewer is an
	// error. It ends when ctx does even if src is blocked in Read, so src must
	// not be used again before that Read returned. The caller removes the
	// volume of a failed upload. Out of room: PoolFull.
	Upload(ctx context.Context, name string, src io.Reader, length int64) error
	// DeleteVolume removes one; absent is success. Nothing protects a volume in
	// use. A file that the host has not listed yet, a console log, is found too.
	DeleteVolume(ctx context.Context, name string) error
	// Rescan has the host look at the files of its pool, so that what was written
	// there behind its back, a console's log, is listed from then on. While the
	// pool makes volumes it waits.
	Rescan(ctx context.Context) error
	// CheckSpace fails with PoolFull, naming pool, available and needed bytes,
	// when less than needed is free. The pool is refreshed first, at most every
	// 5 s; while the host refuses to refresh, the last figures less what was
	// granted since count.
	CheckSpace(ctx context.Context, neededBytes int64) (availableBytes int64, err error)
	// ReadVolume returns the last maxBytes of the volume's content.
	ReadVolume(ctx context.Context, name string, maxBytes int64) ([]byte, error)
}

// Power is what a host says of a machine's running.
type Power int

// The powers that the contract tells apart; everything else a host may say is PowerOff.
const (
	PowerOff Power = iota
	PowerUnknown
	PowerOn
	PowerPaused
)

// Machine is a domain as its host describes it.
type Machine struct {
	Name string
	UUID string
	// Mark is nil when the domain carries none of ours, or one that cannot be
	// parsed: it is somebody else's.
	Mark  *Mark
	Power Power
	// PowerReason says in words why (paused: I/O error).
	PowerReason string
	// Persistent is false for a domain that was undefined while it ran.
	Persistent bool
	// RootDisk is the file of its root disk, "" without one.
	RootDisk string
	// Overlay is that file's name, by which it is a volume if it is in our pool.
	Overlay string
	// Addresses are those of its own network card, best source first; nil
	// unless asked for.
	Addresses []Address
}

// Listing is the answer of HostMachines.List.
type Listing struct {
	Machines []Machine
	// Skipped counts domains that vanished or could not be read.
	Skipped int
}

// Definition is what a machine is made of. Paths are as the host resolved them.
type Definition struct {
	Name      string
	UUID      string
	Mark      Mark
	VCPUs     int
	MemoryMiB int
	Firmware  Firmware
	// OverlayPath (qcow2), SeedPath (raw, read only) and ConsolePath (a log that the host writes).
	OverlayPath string
	SeedPath    string
	ConsolePath string
	Autostart   bool
}

// Volume is a file of the pool.
type Volume struct {
	Name string
	Path string
	// Format is libvirt's word for it: qcow2, raw, iso.
	Format        string
	CapacityBytes int64
	// AllocationBytes is what it takes on disk.
	AllocationBytes int64
	// PhysicalBytes is the file's length; 0 when the host does not say.
	PhysicalBytes int64
	// ModifiedAt is by the host's clock: compare it with itself only.
	ModifiedAt time.Time
	// BackingPath is the path of the volume it is an overlay of, "" without.
	BackingPath string
}

// NewVolume is what CreateVolume makes.
type NewVolume struct {
	Name          string
	Format        string
	CapacityBytes int64
	// BackingPath and BackingFormat make it an overlay.
	BackingPath   string
	BackingFormat string
}

// HostHealth is one entry of a Check.
type HostHealth struct {
	Host    string
	Ready   bool
	Reason  Reason
	Message string
	Latency time.Duration
	// Details holds what is known; each field may be empty.
	Details HostDetails
}

// HostDetails are a host's facts, as far as they are known.
type HostDetails struct {
	User             string
	Hostname         string
	HostUUID         string
	LibvirtVersion   string
	DomainType       string
	Firmware         []string
	Pool             string
	PoolUUID         string
	PoolState        string
	PoolCapacityGiB  *float64
	PoolAvailableGiB *float64
	MemoryFreeMiB    *int64
}
