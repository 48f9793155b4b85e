package config

import (
	"net"
	"net/netip"
	"time"
)

// Config is the whole file, with defaults filled in. It is read-only after Load.
//
// The tags beside yaml say what a value may be. Of these, range (low..high, in
// whole numbers or durations, after "0 or" where 0 stands apart) and oneof are
// checked by their tag; required and form tell the schema what validate checks.
type Config struct {
	// Server says where kvm2d listens and who may call. A change needs a restart.
	Server Server `yaml:"server"`
	// Timeouts bound the calls to hosts and the shutdown. A change needs a restart.
	Timeouts Timeouts `yaml:"timeouts"`
	// Limits bound what callers can ask for at once. A change needs a restart.
	Limits Limits `yaml:"limits"`
	// ProbeInterval is the time between two looks at every host for the metrics
	// and the status page. A change needs a restart.
	ProbeInterval time.Duration `yaml:"probeInterval" range:"1s..24h"`
	// KVM2 is what this daemon provides: hosts, and what callers may ask for on them.
	KVM2 KVM2 `yaml:"kvm2" required:"true"`

	// lineOf tells where a key stands in the file; nil without one.
	lineOf func(path string) int
}

// Server says where kvm2d listens and who may call.
type Server struct {
	// Listen is the address of the API, host:port.
	Listen string `yaml:"listen" form:"listen"`
	// AdminListen is the address of livez, readyz and metrics, host:port.
	AdminListen string `yaml:"adminListen" form:"listen"`
	// Pprof serves /debug/pprof on the admin listener.
	Pprof bool `yaml:"pprof"`
	// Auth holds the ways to prove who one is; on an address that is not loopback one is
	// needed.
	Auth Auth `yaml:"auth"`
	// TLS makes the API listener speak HTTPS; without it, plain HTTP.
	TLS *TLS `yaml:"tls"`
}

// Auth holds the ways to prove who one is; a nil block is off.
type Auth struct {
	// Token knows callers by a file of tokens.
	Token *TokenAuth `yaml:"token"`
	// TokenReview knows callers by their Kubernetes ServiceAccount.
	TokenReview *TokenReviewAuth `yaml:"tokenReview"`
	// ClientCert knows callers by their TLS certificate; it needs TLS.
	ClientCert *ClientCertAuth `yaml:"clientCert"`
}

// Any reports whether at least one way is configured.
func (a Auth) Any() bool { return a.Token != nil || a.TokenReview != nil || a.ClientCert != nil }

// TokenAuth is a file with one "name role token" a line.
type TokenAuth struct {
	// File has one "name role token" a line; it is read again when it changes.
	File string `yaml:"file" required:"true"`
}

// TokenReviewAuth asks a Kubernetes API server about ServiceAccount tokens.
type TokenReviewAuth struct {
	// Audience is the audience that a token must be meant for.
	Audience string `yaml:"audience"`
	// APIServer is the API server's https URL; "" is the one of the pod's environment.
	APIServer string `yaml:"apiServer"`
	// CAFile is the API server's authority, the pod's own unless given.
	CAFile string `yaml:"caFile"`
	// TokenFile is who kvm2d itself is to the API server, the pod's own unless given.
	TokenFile string `yaml:"tokenFile"`
	// Allow lists who is let in; an empty list lets nobody in.
	Allow []AllowAccount `yaml:"allow"`
}

// AllowAccount lets one ServiceAccount in.
type AllowAccount struct {
	// ServiceAccount is namespace/name.
	ServiceAccount string `yaml:"serviceAccount" required:"true" form:"serviceAccount"`
	// Role is full, or read: GET only.
	Role Role `yaml:"role" required:"true" oneof:"full read"`
}

// ClientCertAuth accepts client certificates of one CA.
type ClientCertAuth struct {
	// CAFile is the authority that signs the certificates.
	CAFile string `yaml:"caFile" required:"true"`
	// Allow lists who is let in; an empty list lets nobody in.
	Allow []AllowName `yaml:"allow"`
}

// AllowName lets the certificate in whose common name or DNS name is Name.
type AllowName struct {
	// Name is the certificate's common name or DNS name.
	Name string `yaml:"name" required:"true"`
	// Role is full, or read: GET only.
	Role Role `yaml:"role" required:"true" oneof:"full read"`
}

// Role is what a caller may do.
type Role string

// The two roles.
const (
	RoleFull Role = "full"
	RoleRead Role = "read"
)

// TLS names the certificate of the API listener; the files are re-read when they change.
type TLS struct {
	// CertFile is the certificate with its chain, PEM.
	CertFile string `yaml:"certFile" required:"true"`
	// KeyFile is the certificate's key, PEM.
	KeyFile string `yaml:"keyFile" required:"true"`
}

// Timeouts bound the calls to hosts and the shutdown.
type Timeouts struct {
	// Dial bounds a whole dial: TCP, the SSH handshake, the opening of libvirt.
	Dial time.Duration `yaml:"dial" range:"100ms..5m"`
	// Call bounds one remote call that has no limit of its own.
	Call time.Duration `yaml:"call" range:"100ms..10m"`
	// Start bounds the start of a domain.
	Start time.Duration `yaml:"start" range:"1s..1h"`
	// Agent bounds the question to a guest agent.
	Agent time.Duration `yaml:"agent" range:"100ms..1m"`
	// Stall ends a transfer on which no byte moved for so long.
	Stall time.Duration `yaml:"stall" range:"1s..1h"`
	// Transfer bounds a whole transfer; 0 leaves only stall.
	Transfer time.Duration `yaml:"transfer" range:"0 or 1s..168h"`
	// Drain bounds the graceful part of a shutdown.
	Drain time.Duration `yaml:"drain" range:"0s..1h"`
}

// Limits bound what callers can ask for at once.
type Limits struct {
	// CreateWait bounds the work of one create, however many callers wait for it.
	CreateWait time.Duration `yaml:"createWait" range:"1s..24h"`
	// CreatesPerHost bounds the creates that work on one host at a time.
	CreatesPerHost int `yaml:"createsPerHost" range:"1..100"`
	// Requests bounds the requests in progress.
	Requests int `yaml:"requests" range:"1..100000"`
	// RequestBodyMiB bounds one request's body. Seeds of such user data, as many as are
	// built at a time, have to fit into the 64 MiB that the chart gives /tmp.
	RequestBodyMiB int `yaml:"requestBodyMiB" range:"1..8"`
	// TransferBufferMiB bounds what all transfers to and from hosts read ahead
	// together; half a MiB each, and more transfers wait.
	TransferBufferMiB int `yaml:"transferBufferMiB" range:"4..4096"`
}

// KVM2 is what this daemon provides: hosts, and what callers may ask for on them.
type KVM2 struct {
	// Owner marks our domains and volumes; two daemons with different owners can
	// share a host. A change needs a restart.
	Owner string `yaml:"owner" form:"label"`
	// Hosts are the libvirt machines. A host may be added and its keys may change at run
	// time; to remove or rename one, restart.
	Hosts []Host `yaml:"hosts" required:"true"`
	// Images are the disk images that instances can boot from, by name.
	Images map[string]Image `yaml:"images"`
	// Sizes are machines' measures, by name.
	Sizes map[string]Size `yaml:"sizes"`
	// Placements are promises to callers, by name: add one, never change what one means.
	Placements map[string]Placement `yaml:"placements"`
}

// Host is one libvirt machine.
type Host struct {
	// Name is part of every instance's id and never changes.
	Name string `yaml:"name" required:"true" form:"label"`
	// URI is qemu+ssh://user@host[:port]/system, or qemu:///system for this machine.
	URI string `yaml:"uri" required:"true" form:"hostURI"`
	// SSHKeyFile is the private key of the login; it is read at every dial.
	SSHKeyFile string `yaml:"sshKeyFile"`
	// PassphraseFile holds the passphrase of the key, if it has one.
	PassphraseFile string `yaml:"passphraseFile"`
	// AgentSocket is the socket of an ssh-agent whose keys are offered after sshKeyFile, or instead of it.
	AgentSocket string `yaml:"agentSocket" form:"absolute"`
	// KnownHostsFile has the host's key, as OpenSSH keeps it.
	KnownHostsFile string `yaml:"knownHostsFile"`
	// InsecureIgnoreHostKey accepts any host key: for experiments only.
	InsecureIgnoreHostKey bool `yaml:"insecureIgnoreHostKey"`
	// Jump is an SSH server on the way to the host.
	Jump *Jump `yaml:"jump"`
	// Pool is the storage pool for images and disks.
	Pool string `yaml:"pool" form:"libvirtName"`
	// Bridge is a bridge of the host that instances are plugged into; exactly one of
	// bridge and network is set.
	Bridge string `yaml:"bridge" form:"bridge"`
	// Network is a libvirt network instead.
	Network string `yaml:"network" form:"networkName"`
	// DomainType is auto, kvm or qemu.
	DomainType string `yaml:"domainType" oneof:"auto kvm qemu"`
	// Emulator is the QEMU binary's path on the host; "" leaves it to libvirt.
	Emulator string `yaml:"emulator" form:"absolute"`
	// Socket is libvirt's socket on the host; "" is libvirt's usual one.
	Socket string `yaml:"socket" form:"absolute"`
	// Maintenance refuses new instances here, and nothing else.
	Maintenance bool `yaml:"maintenance"`
}

// Endpoint returns where the host is. It is valid after Load.
func (h Host) Endpoint() Endpoint {
	e, _ := parseHostURI(h.URI)
	return e
}

// Jump is an SSH server on the way to a host.
type Jump struct {
	// URI is ssh://user@host[:port].
	URI string `yaml:"uri" required:"true" form:"jumpURI"`
	// SSHKeyFile is the private key of the login; it is read at every dial.
	SSHKeyFile string `yaml:"sshKeyFile"`
	// PassphraseFile holds the passphrase of the key, if it has one.
	PassphraseFile string `yaml:"passphraseFile"`
	// AgentSocket is the socket of an ssh-agent whose keys are offered after sshKeyFile, or instead of it.
	AgentSocket string `yaml:"agentSocket" form:"absolute"`
	// KnownHostsFile has the server's key, as OpenSSH keeps it.
	KnownHostsFile string `yaml:"knownHostsFile" required:"true"`
}

// Endpoint returns where the jump server is. It is valid after Load.
func (j Jump) Endpoint() Endpoint {
	e, _ := parseJumpURI(j.URI)
	return e
}

// Image is a disk image that instances can boot from.
type Image struct {
	// URL is where the image is downloaded from, http or https.
	URL string `yaml:"url" required:"true" form:"httpURL"`
	// SHA256 is the hex digest of the file at URL; at most one digest is set.
	SHA256 string `yaml:"sha256" form:"sha256"`
	// SHA512 is the hex digest of the file at URL; at most one digest is set.
	SHA512 string `yaml:"sha512" form:"sha512"`
	// Firmware is uefi or bios.
	Firmware string `yaml:"firmware" oneof:"uefi bios"`
	// Format is qcow2 or raw; "" means the content tells.
	Format string `yaml:"format" oneof:"qcow2 raw"`
	// VendorDataFile is added to the vendor data of every instance of the image.
	VendorDataFile string `yaml:"vendorDataFile"`
	// DecompressLimitGiB bounds what a compressed image may expand to; 0 is the default.
	DecompressLimitGiB int `yaml:"decompressLimitGiB" range:"0..65536"`
}

// Size is a machine's measure.
type Size struct {
	// VCPUs is the number of virtual CPUs.
	VCPUs int `yaml:"vcpus" required:"true" range:"1..1024"`
	// MemoryMiB is the guest's memory.
	MemoryMiB int `yaml:"memoryMiB" required:"true" range:"64..16777216"`
	// DiskGiB is the root disk; 0 means as large as the image.
	DiskGiB int `yaml:"diskGiB" range:"0..65536"`
}

// Placement is a promise to callers: a host, and the defaults that go with it.
type Placement struct {
	// Host is where instances of this placement live.
	Host string `yaml:"host" required:"true"`
	// Image is what they boot from unless the caller names another.
	Image string `yaml:"image" required:"true"`
	// Size is what they measure unless the caller names another.
	Size string `yaml:"size" required:"true"`
}

// Default returns a Config with nothing but defaults.
func Default() Config {
	return Config{
		Server: Server{Listen: "127.0.0.1:8080", AdminListen: "127.0.0.1:9090"},
		Timeouts: Timeouts{
			Dial: 10 * time.Second, Call: 30 * time.Second, Start: 90 * time.Second,
			Agent: 2 * time.Second, Stall: 60 * time.Second, Transfer: 20 * time.Minute,
			Drain: 60 * time.Second,
		},
		Limits: Limits{
			CreateWait: 15 * time.Minute, CreatesPerHost: 3, Requests: 512,
			RequestBodyMiB: 1, TransferBufferMiB: 64,
		},
		ProbeInterval: 30 * time.Second,
		KVM2:          KVM2{Owner: "kvm2d"},
	}
}

func (h *Host) setDefaults() { h.Pool, h.DomainType = "default", "auto" }

func (i *Image) setDefaults() { i.Firmware = "uefi" }

func (t *TokenReviewAuth) setDefaults() {
	const dir = "/var/run/secrets/kubernetes.io/serviceaccount/"
	t.Audience, t.CAFile, t.TokenFile = "kvm2d", dir+"ca.crt", dir+"token"
}

// Loopback reports whether a listen address is reachable from this machine
// only. A name other than localhost is not: what it resolves to can change.
func Loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
