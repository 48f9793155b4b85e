package libvirtx

import (
	"context"
	"io"

	libvirt "github.com/digitalocean/go-libvirt"
)

// Backend is the seam to libvirt: one method per remote call, named as the
// library names it, with the library's types and errors (libvirt.Error with
// libvirt's number). Implementations classify nothing and retry nothing.
//
// ctx bounds how long the caller waits. libvirt knows no cancellation, so an
// implementation may block past it; session.go is what leaves such a call
// behind and closes the connection of one that passes its limit.
type Backend interface {
	ConnectGetLibVersion(ctx context.Context) (uint64, error)
	ConnectGetHostname(ctx context.Context) (string, error)
	// ConnectGetCapabilities returns the capabilities XML; the host's UUID is in it.
	ConnectGetCapabilities(ctx context.Context) (string, error)
	// ConnectGetDomainCapabilities: empty strings leave the choice to libvirt.
	ConnectGetDomainCapabilities(ctx context.Context, emulator, arch, machine, virtType string) (string, error)
	// NodeGetFreeMemory is in bytes.
	NodeGetFreeMemory(ctx context.Context) (uint64, error)

	// ConnectGetAllDomainStats asks for the state group of every domain, without
	// waiting for domains that are busy (NOWAIT).
	ConnectGetAllDomainStats(ctx context.Context) ([]libvirt.DomainStatsRecord, error)
	DomainLookupByName(ctx context.Context, name string) (libvirt.Domain, error)
	DomainGetXMLDesc(ctx context.Context, dom libvirt.Domain, flags libvirt.DomainXMLFlags) (string, error)
	DomainGetState(ctx context.Context, dom libvirt.Domain) (state, reason int32, err error)
	DomainIsPersistent(ctx context.Context, dom libvirt.Domain) (bool, error)
	DomainInterfaceAddresses(ctx context.Context, dom libvirt.Domain, source libvirt.DomainInterfaceAddressesSource) ([]libvirt.DomainInterface, error)
	DomainDefineXML(ctx context.Context, xml string, flags libvirt.DomainDefineFlags) (libvirt.Domain, error)
	DomainCreate(ctx context.Context, dom libvirt.Domain, flags libvirt.DomainCreateFlags) error
	DomainDestroy(ctx context.Context, dom libvirt.Domain) error
	DomainUndefine(ctx context.Context, dom libvirt.Domain, flags libvirt.DomainUndefineFlagsValues) error
	DomainSetAutostart(ctx context.Context, dom libvirt.Domain, on bool) error
	// DomainSetMetadata sets the element of namespace uri; xml carries neither prefix nor namespace.
	DomainSetMetadata(ctx context.Context, dom libvirt.Domain, xml, key, uri string, flags libvirt.DomainModificationImpact) error

	NetworkLookupByName(ctx context.Context, name string) (libvirt.Network, error)
	NetworkIsActive(ctx context.Context, net libvirt.Network) (bool, error)
	NetworkGetDhcpLeases(ctx context.Context, net libvirt.Network) ([]libvirt.NetworkDhcpLease, error)
	// InterfaceLookupByName finds a host's interface (a bridge); many hosts run without that driver (code 3).
	InterfaceLookupByName(ctx context.Context, name string) (libvirt.Interface, error)

	StoragePoolLookupByName(ctx context.Context, name string) (libvirt.StoragePool, error)
	// StoragePoolGetInfo is in bytes; state 2 is running.
	StoragePoolGetInfo(ctx context.Context, pool libvirt.StoragePool) (state uint8, capacity, allocation, available uint64, err error)
	// StoragePoolGetXMLDesc tells where the pool is.
	StoragePoolGetXMLDesc(ctx context.Context, pool libvirt.StoragePool) (string, error)
	StoragePoolRefresh(ctx context.Context, pool libvirt.StoragePool) error
	StoragePoolListAllVolumes(ctx context.Context, pool libvirt.StoragePool) ([]libvirt.StorageVol, error)
	StorageVolCreateXML(ctx context.Context, pool libvirt.StoragePool, xml string, flags libvirt.StorageVolCreateFlags) (libvirt.StorageVol, error)
	StorageVolGetXMLDesc(ctx context.Context, vol libvirt.StorageVol) (string, error)
	StorageVolGetPath(ctx context.Context, vol libvirt.StorageVol) (string, error)
	StorageVolDelete(ctx context.Context, vol libvirt.StorageVol) error
	// StorageVolUpload writes length bytes of src at offset. libvirt takes fewer
	// or more without complaint: the caller counts.
	StorageVolUpload(ctx context.Context, vol libvirt.StorageVol, src io.Reader, offset, length uint64) error
	// StorageVolDownload reads length bytes from offset into dst, which must never fail.
	StorageVolDownload(ctx context.Context, vol libvirt.StorageVol, dst io.Writer, offset, length uint64) error
}

// Conn is one open connection to one libvirtd.
type Conn interface {
	Backend
	// Close ends the connection at once, blocked calls included, and waits for
	// the goroutines of the connection.
	Close() error
	// Done is closed when the connection is gone, whoever ended it.
	Done() <-chan struct{}
}

// Connector opens connections to one host. The SSH and local dialers and the
// simulator implement it.
type Connector interface {
	// Connect returns a fresh connection that the caller closes. It honours ctx.
	Connect(ctx context.Context) (Conn, error)
}
