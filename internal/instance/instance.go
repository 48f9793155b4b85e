package instance

import (
	"net/netip"
	"time"
)

// State is an instance's life as a caller sees it.
type State string

// The three states of the contract (G3).
const (
	// Provisioning: the machine runs, or is coming up, and has no IPv4 address yet.
	Provisioning State = "Provisioning"
	// Running: the machine runs and its IPv4 address is known.
	Running State = "Running"
	// Stopped: everything else, paused and crashed included; StateReason says why.
	Stopped State = "Stopped"
)

// Instance is one VM of ours as read from its host.
type Instance struct {
	ID          ID
	UID         string
	Placement   string
	Image       string
	Size        string
	State       State
	StateReason string
	// IP is the first IPv4 address that is neither loopback nor link-local;
	// the zero Addr until one is known.
	IP        netip.Addr
	Addresses []Address
	// CreatedAt is what was written at create; zero when the mark lacks it.
	CreatedAt time.Time
	Tags      map[string]string
}

// Address is one address of an instance and who told us.
type Address struct {
	Addr   netip.Addr
	Source AddressSource
	MAC    string
}

// AddressSource says where an address was learnt.
type AddressSource string

// Sources in the order in which the contract prefers them (G4).
const (
	SourceAgent AddressSource = "agent"
	SourceLease AddressSource = "lease"
	SourceARP   AddressSource = "arp"
)

// Spec is what a caller asks for. It is validated by Service.Create.
type Spec struct {
	Name      string
	UID       string
	Placement string
	// Image and Size replace the placement's defaults when not empty.
	Image string
	Size  string
	// UserData is cloud-init user data: a secret that reaches the seed byte for
	// byte and nothing else.
	UserData Secret
	Tags     map[string]string
	// Autostart: the machine comes back after its host rebooted.
	Autostart bool
}

// Secret is bytes that must not be printed. Every formatting verb, slog, and
// encoding/json show only its length.
type Secret []byte

// Mark is our own element in a domain's metadata: what was written at create.
type Mark struct {
	Owner     string
	UID       string
	CreatedAt time.Time
	Placement string
	Image     string
	Size      string
	// Deleting is set while a Delete is under way, so that nobody starts the machine.
	Deleting bool
	Tags     map[string]string
}

// Catalog is what callers may ask for, by name.
type Catalog struct {
	Images     map[string]Image
	Sizes      map[string]Size
	Placements map[string]Placement
}

// Placement is a promise to callers: a host and the defaults that go with it.
type Placement struct {
	Name  string
	Host  string
	Image string
	Size  string
}

// Size is a machine's measure.
type Size struct {
	Name      string
	VCPUs     int
	MemoryMiB int
	// DiskGiB is the root disk; 0 means as large as the image.
	DiskGiB int
}

// Firmware is how a machine boots.
type Firmware string

// The two firmwares. UEFI is the default, with secure boot off.
const (
	FirmwareUEFI Firmware = "uefi"
	FirmwareBIOS Firmware = "bios"
)

// Image is a configured source of a base disk.
type Image struct {
	Name string
	// URL is where it is downloaded from; it may hold credentials, so it never
	// goes into a log or an error whole (url.URL.Redacted).
	URL string
	// SHA256 and SHA512 are lower-case hex; at most one is set.
	SHA256 string
	SHA512 string
	// Format is "" (told by the content), "qcow2" or "raw".
	Format   string
	Firmware Firmware
	// VendorDataFile, when set, is added to our own vendor data as a second part.
	VendorDataFile string
	// DecompressLimitBytes bounds what a compressed image may expand to; 0 is the default.
	DecompressLimitBytes int64
}
