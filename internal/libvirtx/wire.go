package libvirtx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
)

// closeGrace is how long Close waits for the library's goroutines, which are
// gone within a millisecond unless the library has locked itself up.
const closeGrace = 5 * time.Second

// oneShot is the library's dialer over a connection that is there already.
type oneShot struct{ conn net.Conn }

func (d oneShot) Dial() (net.Conn, error) { return d.conn, nil }

// wire is a Conn over the RPC library: one library object for one connection,
// never used again. The library's own Disconnect waits without limit for a
// peer that may be gone, so it is never called; the connection is closed
// below it instead.
type wire struct {
	lib   *libvirt.Libvirt
	guard *guard
	// wait waits for the goroutines below the guard, nil when there are none.
	wait func()
	// silent says, if the peer went silent, for how long; nil is never.
	silent func() error
}

// openWire speaks libvirt over conn and opens the driver of uri. It owns conn
// from here on: whatever it returns, shut has been or will be called once, to
// free everything that carries conn. The caller aborts it by closing what is
// below conn.
func openWire(conn net.Conn, shut func() error, uri libvirt.ConnectURI) (*wire, error) {
	g := newGuard(conn, shut)
	lib := libvirt.NewWithDialer(oneShot{g})
	err := lib.ConnectToURI(uri)
	g.finishOpening()
	if err != nil {
		_ = g.abort(err)
		if bad := g.garbage.Load(); bad != nil {
			err = bad
		}
		return nil, fmt.Errorf("open %s: %w", uri, tame(err))
	}
	return &wire{lib: lib, guard: g}, nil
}

// Close ends the connection at once and waits for the library's goroutines.
func (w *wire) Close() error {
	err := w.guard.Close()
	select {
	case <-w.lib.Disconnected():
	case <-time.After(closeGrace):
		err = errors.Join(err, errors.New("the RPC library did not let go of a closed connection"))
	}
	if w.wait != nil {
		w.wait()
	}
	return err
}

// Done is closed when the connection is gone.
func (w *wire) Done() <-chan struct{} { return w.guard.done }

// Cause is what ended the connection, for after Done; nil when we closed it.
func (w *wire) Cause() error {
	if w.silent != nil {
		if err := w.silent(); err != nil {
			return err
		}
	}
	if errors.Is(w.guard.cause, io.EOF) {
		return errHungUp
	}
	return w.guard.cause
}

// sent tells apart the one error that the library gives before it sends
// anything, the connection was gone already, and makes the others fit to show.
func sent(err error) error {
	if errors.Is(err, syscall.EINVAL) && !as[*net.OpError](err) {
		return errNotSent
	}
	return tame(err)
}

func reply[T any](v T, err error) (T, error) { return v, sent(err) }

// optional is how the protocol says "not given".
func optional(s string) libvirt.OptString {
	if s == "" {
		return nil
	}
	return libvirt.OptString{s}
}

func (w *wire) ConnectGetLibVersion(context.Context) (uint64, error) {
	return reply(w.lib.ConnectGetLibVersion())
}

func (w *wire) ConnectGetHostname(context.Context) (string, error) {
	return reply(w.lib.ConnectGetHostname())
}

func (w *wire) ConnectGetCapabilities(context.Context) (string, error) {
	return reply(w.lib.ConnectGetCapabilities())
}

func (w *wire) ConnectGetDomainCapabilities(_ context.Context, emulator, arch, machine, virtType string) (string, error) {
	return reply(w.lib.ConnectGetDomainCapabilities(optional(emulator), optional(arch), optional(machine), optional(virtType), 0))
}

func (w *wire) NodeGetFreeMemory(context.Context) (uint64, error) {
	return reply(w.lib.NodeGetFreeMemory())
}

func (w *wire) ConnectGetAllDomainStats(context.Context) ([]libvirt.DomainStatsRecord, error) {
	return reply(w.lib.ConnectGetAllDomainStats(nil, uint32(libvirt.DomainStatsState), uint32(libvirt.ConnectGetAllDomainsStatsNowait)))
}

func (w *wire) DomainLookupByName(_ context.Context, name string) (libvirt.Domain, error) {
	return reply(w.lib.DomainLookupByName(name))
}

func (w *wire) DomainGetXMLDesc(_ context.Context, dom libvirt.Domain, flags libvirt.DomainXMLFlags) (string, error) {
	return reply(w.lib.DomainGetXMLDesc(dom, flags))
}

func (w *wire) DomainGetState(_ context.Context, dom libvirt.Domain) (state, reason int32, err error) {
	state, reason, err = w.lib.DomainGetState(dom, 0)
	return state, reason, sent(err)
}

func (w *wire) DomainIsPersistent(_ context.Context, dom libvirt.Domain) (bool, error) {
	return truth(w.lib.DomainIsPersistent(dom))
}

func (w *wire) DomainInterfaceAddresses(_ context.Context, dom libvirt.Domain, source libvirt.DomainInterfaceAddressesSource) ([]libvirt.DomainInterface, error) {
	return reply(w.lib.DomainInterfaceAddresses(dom, uint32(source), 0))
}

func (w *wire) DomainDefineXML(_ context.Context, xml string, flags libvirt.DomainDefineFlags) (libvirt.Domain, error) {
	return reply(w.lib.DomainDefineXMLFlags(xml, flags))
}

func (w *wire) DomainCreate(_ context.Context, dom libvirt.Domain, flags libvirt.DomainCreateFlags) error {
	_, err := w.lib.DomainCreateWithFlags(dom, uint32(flags))
	return sent(err)
}

func (w *wire) DomainDestroy(_ context.Context, dom libvirt.Domain) error {
	return sent(w.lib.DomainDestroy(dom))
}

func (w *wire) DomainUndefine(_ context.Context, dom libvirt.Domain, flags libvirt.DomainUndefineFlagsValues) error {
	return sent(w.lib.DomainUndefineFlags(dom, flags))
}

func (w *wire) DomainSetAutostart(_ context.Context, dom libvirt.Domain, on bool) error {
	var flag int32
	if on {
		flag = 1
	}
	return sent(w.lib.DomainSetAutostart(dom, flag))
}

func (w *wire) DomainSetMetadata(_ context.Context, dom libvirt.Domain, xml, key, uri string, flags libvirt.DomainModificationImpact) error {
	return sent(w.lib.DomainSetMetadata(dom, int32(libvirt.DomainMetadataElement), libvirt.OptString{xml}, optional(key), optional(uri), flags))
}

func (w *wire) NetworkLookupByName(_ context.Context, name string) (libvirt.Network, error) {
	return reply(w.lib.NetworkLookupByName(name))
}

func (w *wire) NetworkIsActive(_ context.Context, net libvirt.Network) (bool, error) {
	return truth(w.lib.NetworkIsActive(net))
}

func (w *wire) NetworkGetDhcpLeases(_ context.Context, net libvirt.Network) ([]libvirt.NetworkDhcpLease, error) {
	leases, _, err := w.lib.NetworkGetDhcpLeases(net, nil, 1, 0)
	return leases, sent(err)
}

func (w *wire) InterfaceLookupByName(_ context.Context, name string) (libvirt.Interface, error) {
	return reply(w.lib.InterfaceLookupByName(name))
}

func (w *wire) StoragePoolLookupByName(_ context.Context, name string) (libvirt.StoragePool, error) {
	return reply(w.lib.StoragePoolLookupByName(name))
}

func (w *wire) StoragePoolGetInfo(_ context.Context, pool libvirt.StoragePool) (state uint8, capacity, allocation, available uint64, err error) {
	state, capacity, allocation, available, err = w.lib.StoragePoolGetInfo(pool)
	return state, capacity, allocation, available, sent(err)
}

func (w *wire) StoragePoolGetXMLDesc(_ context.Context, pool libvirt.StoragePool) (string, error) {
	return reply(w.lib.StoragePoolGetXMLDesc(pool, 0))
}

func (w *wire) StoragePoolRefresh(_ context.Context, pool libvirt.StoragePool) error {
	return sent(w.lib.StoragePoolRefresh(pool, 0))
}

func (w *wire) StoragePoolListAllVolumes(_ context.Context, pool libvirt.StoragePool) ([]libvirt.StorageVol, error) {
	volumes, _, err := w.lib.StoragePoolListAllVolumes(pool, 1, 0)
	return volumes, sent(err)
}

func (w *wire) StorageVolCreateXML(_ context.Context, pool libvirt.StoragePool, xml string, flags libvirt.StorageVolCreateFlags) (libvirt.StorageVol, error) {
	return reply(w.lib.StorageVolCreateXML(pool, xml, flags))
}

func (w *wire) StorageVolGetXMLDesc(_ context.Context, vol libvirt.StorageVol) (string, error) {
	return reply(w.lib.StorageVolGetXMLDesc(vol, 0))
}

func (w *wire) StorageVolGetPath(_ context.Context, vol libvirt.StorageVol) (string, error) {
	return reply(w.lib.StorageVolGetPath(vol))
}

func (w *wire) StorageVolDelete(_ context.Context, vol libvirt.StorageVol) error {
	return sent(w.lib.StorageVolDelete(vol, 0))
}

func (w *wire) StorageVolUpload(_ context.Context, vol libvirt.StorageVol, src io.Reader, offset, length uint64) error {
	return sent(w.lib.StorageVolUpload(vol, src, offset, length, 0))
}

func (w *wire) StorageVolDownload(_ context.Context, vol libvirt.StorageVol, dst io.Writer, offset, length uint64) error {
	return sent(w.lib.StorageVolDownload(vol, dst, offset, length, 0))
}

func truth(flag int32, err error) (bool, error) { return flag == 1, sent(err) }
