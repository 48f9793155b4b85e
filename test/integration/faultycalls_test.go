//go:build integration

package integration_test

import (
	"context"
	"io"

	libvirt "github.com/digitalocean/go-libvirt"
)

// The seam's calls, each through the plan.

func (c *faultyConn) ConnectGetLibVersion(ctx context.Context) (uint64, error) {
	return ask(c, "ConnectGetLibVersion", func() (uint64, error) { return c.Conn.ConnectGetLibVersion(ctx) })
}

func (c *faultyConn) ConnectGetHostname(ctx context.Context) (string, error) {
	return ask(c, "ConnectGetHostname", func() (string, error) { return c.Conn.ConnectGetHostname(ctx) })
}

func (c *faultyConn) ConnectGetCapabilities(ctx context.Context) (string, error) {
	return ask(c, "ConnectGetCapabilities", func() (string, error) { return c.Conn.ConnectGetCapabilities(ctx) })
}

func (c *faultyConn) ConnectGetDomainCapabilities(ctx context.Context, emulator, arch, machine, virtType string) (string, error) {
	return ask(c, "ConnectGetDomainCapabilities", func() (string, error) {
		return c.Conn.ConnectGetDomainCapabilities(ctx, emulator, arch, machine, virtType)
	})
}

func (c *faultyConn) NodeGetFreeMemory(ctx context.Context) (uint64, error) {
	return ask(c, "NodeGetFreeMemory", func() (uint64, error) { return c.Conn.NodeGetFreeMemory(ctx) })
}

func (c *faultyConn) ConnectGetAllDomainStats(ctx context.Context) ([]libvirt.DomainStatsRecord, error) {
	return ask(c, "ConnectGetAllDomainStats", func() ([]libvirt.DomainStatsRecord, error) { return c.Conn.ConnectGetAllDomainStats(ctx) })
}

func (c *faultyConn) DomainLookupByName(ctx context.Context, name string) (libvirt.Domain, error) {
	return ask(c, "DomainLookupByName", func() (libvirt.Domain, error) { return c.Conn.DomainLookupByName(ctx, name) })
}

func (c *faultyConn) DomainGetXMLDesc(ctx context.Context, dom libvirt.Domain, flags libvirt.DomainXMLFlags) (string, error) {
	return ask(c, "DomainGetXMLDesc", func() (string, error) { return c.Conn.DomainGetXMLDesc(ctx, dom, flags) })
}

func (c *faultyConn) DomainGetState(ctx context.Context, dom libvirt.Domain) (state, reason int32, err error) {
	err = c.do("DomainGetState", func() (err error) {
		state, reason, err = c.Conn.DomainGetState(ctx, dom)
		return err
	})
	return state, reason, err
}

func (c *faultyConn) DomainIsPersistent(ctx context.Context, dom libvirt.Domain) (bool, error) {
	return ask(c, "DomainIsPersistent", func() (bool, error) { return c.Conn.DomainIsPersistent(ctx, dom) })
}

func (c *faultyConn) DomainInterfaceAddresses(ctx context.Context, dom libvirt.Domain, source libvirt.DomainInterfaceAddressesSource) ([]libvirt.DomainInterface, error) {
	return ask(c, "DomainInterfaceAddresses", func() ([]libvirt.DomainInterface, error) { return c.Conn.DomainInterfaceAddresses(ctx, dom, source) })
}

func (c *faultyConn) DomainDefineXML(ctx context.Context, xml string, flags libvirt.DomainDefineFlags) (libvirt.Domain, error) {
	return ask(c, "DomainDefineXML", func() (libvirt.Domain, error) { return c.Conn.DomainDefineXML(ctx, xml, flags) })
}

func (c *faultyConn) DomainCreate(ctx context.Context, dom libvirt.Domain, flags libvirt.DomainCreateFlags) error {
	return c.do("DomainCreate", func() error { return c.Conn.DomainCreate(ctx, dom, flags) })
}

func (c *faultyConn) DomainDestroy(ctx context.Context, dom libvirt.Domain) error {
	return c.do("DomainDestroy", func() error { return c.Conn.DomainDestroy(ctx, dom) })
}

func (c *faultyConn) DomainUndefine(ctx context.Context, dom libvirt.Domain, flags libvirt.DomainUndefineFlagsValues) error {
	return c.do("DomainUndefine", func() error { return c.Conn.DomainUndefine(ctx, dom, flags) })
}

func (c *faultyConn) DomainSetAutostart(ctx context.Context, dom libvirt.Domain, on bool) error {
	return c.do("DomainSetAutostart", func() error { return c.Conn.DomainSetAutostart(ctx, dom, on) })
}

func (c *faultyConn) DomainSetMetadata(ctx context.Context, dom libvirt.Domain, xml, key, uri string, flags libvirt.DomainModificationImpact) error {
	return c.do("DomainSetMetadata", func() error { return c.Conn.DomainSetMetadata(ctx, dom, xml, key, uri, flags) })
}

func (c *faultyConn) NetworkLookupByName(ctx context.Context, name string) (libvirt.Network, error) {
	return ask(c, "NetworkLookupByName", func() (libvirt.Network, error) { return c.Conn.NetworkLookupByName(ctx, name) })
}

func (c *faultyConn) NetworkIsActive(ctx context.Context, net libvirt.Network) (bool, error) {
	return ask(c, "NetworkIsActive", func() (bool, error) { return c.Conn.NetworkIsActive(ctx, net) })
}

func (c *faultyConn) NetworkGetDhcpLeases(ctx context.Context, net libvirt.Network) ([]libvirt.NetworkDhcpLease, error) {
	return ask(c, "NetworkGetDhcpLeases", func() ([]libvirt.NetworkDhcpLease, error) { return c.Conn.NetworkGetDhcpLeases(ctx, net) })
}

func (c *faultyConn) InterfaceLookupByName(ctx context.Context, name string) (libvirt.Interface, error) {
	return ask(c, "InterfaceLookupByName", func() (libvirt.Interface, error) { return c.Conn.InterfaceLookupByName(ctx, name) })
}

func (c *faultyConn) StoragePoolLookupByName(ctx context.Context, name string) (libvirt.StoragePool, error) {
	return ask(c, "StoragePoolLookupByName", func() (libvirt.StoragePool, error) { return c.Conn.StoragePoolLookupByName(ctx, name) })
}

func (c *faultyConn) StoragePoolGetInfo(ctx context.Context, pool libvirt.StoragePool) (state uint8, capacity, allocation, available uint64, err error) {
	err = c.do("StoragePoolGetInfo", func() (err error) {
		state, capacity, allocation, available, err = c.Conn.StoragePoolGetInfo(ctx, pool)
		return err
	})
	return state, capacity, allocation, available, err
}

func (c *faultyConn) StoragePoolGetXMLDesc(ctx context.Context, pool libvirt.StoragePool) (string, error) {
	return ask(c, "StoragePoolGetXMLDesc", func() (string, error) { return c.Conn.StoragePoolGetXMLDesc(ctx, pool) })
}

func (c *faultyConn) StoragePoolRefresh(ctx context.Context, pool libvirt.StoragePool) error {
	return c.do("StoragePoolRefresh", func() error { return c.Conn.StoragePoolRefresh(ctx, pool) })
}

func (c *faultyConn) StoragePoolListAllVolumes(ctx context.Context, pool libvirt.StoragePool) ([]libvirt.StorageVol, error) {
	return ask(c, "StoragePoolListAllVolumes", func() ([]libvirt.StorageVol, error) { return c.Conn.StoragePoolListAllVolumes(ctx, pool) })
}

func (c *faultyConn) StorageVolCreateXML(ctx context.Context, pool libvirt.StoragePool, xml string, flags libvirt.StorageVolCreateFlags) (libvirt.StorageVol, error) {
	return ask(c, "StorageVolCreateXML", func() (libvirt.StorageVol, error) { return c.Conn.StorageVolCreateXML(ctx, pool, xml, flags) })
}

func (c *faultyConn) StorageVolGetXMLDesc(ctx context.Context, vol libvirt.StorageVol) (string, error) {
	return ask(c, "StorageVolGetXMLDesc", func() (string, error) { return c.Conn.StorageVolGetXMLDesc(ctx, vol) })
}

func (c *faultyConn) StorageVolGetPath(ctx context.Context, vol libvirt.StorageVol) (string, error) {
	return ask(c, "StorageVolGetPath", func() (string, error) { return c.Conn.StorageVolGetPath(ctx, vol) })
}

func (c *faultyConn) StorageVolDelete(ctx context.Context, vol libvirt.StorageVol) error {
	return c.do("StorageVolDelete", func() error { return c.Conn.StorageVolDelete(ctx, vol) })
}

func (c *faultyConn) StorageVolUpload(ctx context.Context, vol libvirt.StorageVol, src io.Reader, offset, length uint64) error {
	return c.do("StorageVolUpload", func() error { return c.Conn.StorageVolUpload(ctx, vol, src, offset, length) })
}

func (c *faultyConn) StorageVolDownload(ctx context.Context, vol libvirt.StorageVol, dst io.Writer, offset, length uint64) error {
	return c.do("StorageVolDownload", func() error { return c.Conn.StorageVolDownload(ctx, vol, dst, offset, length) })
}
