package config

import (
	"net"
	"net/netip"
	"time"
)

// Config is the whole file, with defaults filled in. It is read-only after Load.
type Config struct {
	Server   Server   `yaml:"server"`
	Timeouts Timeouts `yaml:"timeouts"`
	Limits   Limits   `yaml:"limits"`
	// ProbeInterval is the time between two looks at every host for the metrics
	// and the status page.
	ProbeInterval time.Duration `yaml:"probeInterval"`
	KVM2          KVM2          `yaml:"kvm2"`

	// lineOf tells where a key stands in the file; nil without one.
	lineOf func(path string) int
}

// Server says where kvm2d listens and who may call.
type Server struct {
	// Listen is the address of the API, host:port.
	Listen string `yaml:"listen"`
	// AdminListen is the address of livez, readyz and metrics, host:port.
	AdminListen string `yaml:"adminListen"`
	// Pprof serves /debug/pprof on the admin listener.
	Pprof bool `yaml:"pprof"`
	Auth  Auth `yaml:"auth"`
	// TLS makes the API listener speak HTTPS; nil means plain HTTP.
	TLS *TLS `yaml:"tls"`
}

// Auth holds the ways to prove who one is; a nil block is off.
type Auth struct {
	Token       *TokenAuth       `yaml:"token"`
	TokenReview *TokenReviewAuth `yaml:"tokenReview"`
	ClientCert  *ClientCertAuth  `yaml:"clientCert"`
}

// Any reports whether at least one way is configured.
func (a Auth) Any() bool { return a.Token != nil || a.TokenReview != nil || a.ClientCert != nil }

// TokenAuth is a file with one "name role token" a line.
type TokenAuth struct {
	File string `yaml:"file"`
}

// TokenReviewAuth asks a Kubernetes API server about ServiceAccount tokens.
type TokenReviewAuth struct {
	// Audience is the audience that a token must be meant for.
	Audience string `yaml:"audience"`
	// APIServer is the API server's https URL; "" is the one of the pod's environment.
	APIServer string `yaml:"apiServer"`
	// CAFile and TokenFile are the pod's own ServiceAccount files unless given.
	CAFile    string         `yaml:"caFile"`
	TokenFile string         `yaml:"tokenFile"`
	Allow     []AllowAccount `yaml:"allow"`
}

// AllowAccount lets one ServiceAccount in.
type AllowAccount struct {
	// ServiceAccount is namespace/name.
	ServiceAccount string `yaml:"serviceAccount"`
	Role           Role   `yaml:"role"`
}

// ClientCertAuth accepts client certificates of one CA.
type ClientCertAuth struct {
	CAFile string      `yaml:"caFile"`
	Allow  []AllowName `yaml:"allow"`
}

// AllowName lets the certificate in whose common name or DNS name is Name.
type AllowName struct {
	Name string `yaml:"name"`
	Role Role   `yaml:"role"`
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
	CertFile string `yaml:"certFile"`
	KeyFile  string `yaml:"keyFile"`
}

// Timeouts bound the calls to hosts and the shutdown.
type Timeouts struct {
	// Dial bounds TCP and the SSH handshake, each.
	Dial time.Duration `yaml:"dial"`
	// Call bounds one remote call that has no limit of its own.
	Call time.Duration `yaml:"call"`
	// Start bounds the start of a domain.
	Start time.Duration `yaml:"start"`
	// Agent bounds the question to a guest agent.
	Agent time.Duration `yaml:"agent"`
	// Stall ends a transfer on which no byte moved for so long.
	Stall time.Duration `yaml:"stall"`
	// Transfer bounds a whole transfer; 0 leaves only Stall.
	Transfer time.Duration `yaml:"transfer"`
	// Drain bounds the graceful part of a shutdown.
	Drain time.Duration `yaml:"drain"`
}

// Limits bound what callers can ask for at once.
type Limits struct {
	// CreateWait bounds the work of one create, however many callers wait for it.
	CreateWait time.Duration `yaml:"createWait"`
	// CreatesPerHost bounds the creates that work on one host at a time.
	CreatesPerHost int `yaml:"createsPerHost"`
	// Requests bounds the requests in progress.
	Requests int `yaml:"requests"`
	// RequestBodyMiB bounds one request's body.
	RequestBodyMiB int `yaml:"requestBodyMiB"`
	// TransferBufferMiB bounds the memory of all transfers together.
	TransferBufferMiB int `yaml:"transferBufferMiB"`
}

// KVM2 is what this daemon provides: hosts, and what callers may ask for on them.
type KVM2 struct {
	// Owner marks our domains and volumes; two daemons with different owners can
	// share a host.
	Owner      string               `yaml:"owner"`
	Hosts      []Host               `yaml:"hosts"`
	Images     map[string]Image     `yaml:"images"`
	Sizes      map[string]Size      `yaml:"sizes"`
	Placements map[string]Placement `yaml:"placements"`
}

// Host is one libvirt machine.
type Host struct {
	Name string `yaml:"name"`
	// URI is qemu+ssh://user@host[:port]/system, or qemu:///system for this machine.
	URI            string `yaml:"uri"`
	SSHKeyFile     string `yaml:"sshKeyFile"`
	PassphraseFile string `yaml:"passphraseFile"`
	KnownHostsFile string `yaml:"knownHostsFile"`
	// InsecureIgnoreHostKey accepts any host key: for experiments only.
	InsecureIgnoreHostKey bool  `yaml:"insecureIgnoreHostKey"`
	Jump                  *Jump `yaml:"jump"`
	// Pool is the storage pool for images and disks.
	Pool string `yaml:"pool"`
	// Bridge is a bridge of the host, Network a libvirt network; exactly one is set.
	Bridge  string `yaml:"bridge"`
	Network string `yaml:"network"`
	// DomainType is auto, kvm or qemu.
	DomainType string `yaml:"domainType"`
	// Emulator is the QEMU binary's path on the host; "" leaves it to libvirt.
	Emulator string `yaml:"emulator"`
	// Socket is libvirt's socket on the host; "" is libvirt's usual one.
	Socket string `yaml:"socket"`
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
	URI            string `yaml:"uri"`
	SSHKeyFile     string `yaml:"sshKeyFile"`
	PassphraseFile string `yaml:"passphraseFile"`
	KnownHostsFile string `yaml:"knownHostsFile"`
}

// Endpoint returns where the jump server is. It is valid after Load.
func (j Jump) Endpoint() Endpoint {
	e, _ := parseJumpURI(j.URI)
	return e
}

// Image is a disk image that instances can boot from.
type Image struct {
	URL string `yaml:"url"`
	// SHA256 and SHA512 are the hex digest of the file at URL; at most one is set.
	SHA256 string `yaml:"sha256"`
	SHA512 string `yaml:"sha512"`
	// Firmware is uefi or bios.
	Firmware string `yaml:"firmware"`
	// Format is qcow2 or raw; "" means the content tells.
	Format string `yaml:"format"`
	// VendorDataFile is added to the vendor data of every instance of the image.
	VendorDataFile string `yaml:"vendorDataFile"`
	// DecompressLimitGiB bounds what a compressed image may expand to; 0 is the default.
	DecompressLimitGiB int `yaml:"decompressLimitGiB"`
}

// Size is a machine's measure.
type Size struct {
	VCPUs     int `yaml:"vcpus"`
	MemoryMiB int `yaml:"memoryMiB"`
	// DiskGiB is the root disk; 0 means as large as the image.
	DiskGiB int `yaml:"diskGiB"`
}

// Placement is a promise to callers: a host, and the defaults that go with it.
type Placement struct {
	Host  string `yaml:"host"`
	Image string `yaml:"image"`
	Size  string `yaml:"size"`
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
