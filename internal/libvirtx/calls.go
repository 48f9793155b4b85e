package libvirtx

import (
	"context"
	"log/slog"

	libvirt "github.com/digitalocean/go-libvirt"
)

// sharedTransferBytes is the largest upload that shares a session with other
// slow calls: a seed, a marker. Larger ones get a connection of their own.
const sharedTransferBytes = 4 << 20

// routes is the table of where each call goes and what bounds it. What is not
// in it is fast and bounded by Limits.Call. What a call says here may be
// narrowed by its arguments: the agent's answers and large uploads.
var routes = map[string]call{
	"DomainCreate":        {lane: laneSlow, limit: limitStart},
	"DomainDestroy":       {lane: laneSlow, isDelete: true},
	"DomainUndefine":      {lane: laneSlow, isDelete: true},
	"StoragePoolRefresh":  {lane: laneSlow},
	"StorageVolCreateXML": {lane: laneSlow},
	"StorageVolDelete":    {lane: laneSlow, isDelete: true},
	"StorageVolUpload":    {lane: laneSlow, limit: limitPace},
	"StorageVolDownload":  {lane: laneTransfer, limit: limitPace},
}

// calls is the Backend that hosts use: it says of each call what it is, and
// leaves the making of it to run.
type calls struct{ run runner }

func route(name string, subject slog.Attr) call {
	c := routes[name]
	c.name = name
	c.subject = subject
	return c
}

func onDomain(name string, dom libvirt.Domain) call {
	return route(name, slog.String("instance", dom.Name))
}

func onPool(name string, pool libvirt.StoragePool) call {
	return route(name, slog.String("pool", pool.Name))
}

func onVolume(name string, vol libvirt.StorageVol) call {
	return route(name, slog.String("volume", vol.Name))
}

// withXML notes the size of a document that is sent; its content stays out.
func (c call) withXML(xml string) call {
	c.detail = slog.Int("xml_bytes", len(xml))
	return c
}

// ask makes a call that answers with a value. The value is read only when the
// call has ended, so one that outlives its caller writes to nobody's memory.
func ask[T any](ctx context.Context, run runner, c call, fn func(context.Context, Backend) (T, error)) (T, error) {
	answer := new(T)
	err := run.do(ctx, c, func(ctx context.Context, b Backend, _ inflight) error {
		v, err := fn(ctx, b)
		*answer = v
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return *answer, nil
}

// tell makes a call that answers only that it was done.
func tell(ctx context.Context, run runner, c call, fn func(context.Context, Backend) error) error {
	return run.do(ctx, c, func(ctx context.Context, b Backend, _ inflight) error { return fn(ctx, b) })
}

func (c calls) ConnectGetLibVersion(ctx context.Context) (uint64, error) {
	return ask(ctx, c.run, route("ConnectGetLibVersion", slog.Attr{}), func(ctx context.Context, b Backend) (uint64, error) {
		return b.ConnectGetLibVersion(ctx)
	})
}

func (c calls) ConnectGetHostname(ctx context.Context) (string, error) {
	return ask(ctx, c.run, route("ConnectGetHostname", slog.Attr{}), func(ctx context.Context, b Backend) (string, error) {
		return b.ConnectGetHostname(ctx)
	})
}

func (c calls) ConnectGetCapabilities(ctx context.Context) (string, error) {
	return ask(ctx, c.run, route("ConnectGetCapabilities", slog.Attr{}), func(ctx context.Context, b Backend) (string, error) {
		return b.ConnectGetCapabilities(ctx)
	})
}

func (c calls) ConnectGetDomainCapabilities(ctx context.Context, emulator, arch, machine, virtType string) (string, error) {
	return ask(ctx, c.run, route("ConnectGetDomainCapabilities", slog.Attr{}), func(ctx context.Context, b Backend) (string, error) {
		return b.ConnectGetDomainCapabilities(ctx, emulator, arch, machine, virtType)
	})
}

func (c calls) NodeGetFreeMemory(ctx context.Context) (uint64, error) {
	return ask(ctx, c.run, route("NodeGetFreeMemory", slog.Attr{}), func(ctx context.Context, b Backend) (uint64, error) {
		return b.NodeGetFreeMemory(ctx)
	})
}

func (c calls) ConnectGetAllDomainStats(ctx context.Context) ([]libvirt.DomainStatsRecord, error) {
	return ask(ctx, c.run, route("ConnectGetAllDomainStats", slog.Attr{}), func(ctx context.Context, b Backend) ([]libvirt.DomainStatsRecord, error) {
		return b.ConnectGetAllDomainStats(ctx)
	})
}

func (c calls) DomainLookupByName(ctx context.Context, name string) (libvirt.Domain, error) {
	return ask(ctx, c.run, route("DomainLookupByName", slog.String("instance", name)), func(ctx context.Context, b Backend) (libvirt.Domain, error) {
		return b.DomainLookupByName(ctx, name)
	})
}

func (c calls) DomainGetXMLDesc(ctx context.Context, dom libvirt.Domain, flags libvirt.DomainXMLFlags) (string, error) {
	return ask(ctx, c.run, onDomain("DomainGetXMLDesc", dom), func(ctx context.Context, b Backend) (string, error) {
		return b.DomainGetXMLDesc(ctx, dom, flags)
	})
}

func (c calls) DomainGetState(ctx context.Context, dom libvirt.Domain) (state, reason int32, err error) {
	both, err := ask(ctx, c.run, onDomain("DomainGetState", dom), func(ctx context.Context, b Backend) ([2]int32, error) {
		state, reason, err := b.DomainGetState(ctx, dom)
		return [2]int32{state, reason}, err
	})
	return both[0], both[1], err
}

func (c calls) DomainIsPersistent(ctx context.Context, dom libvirt.Domain) (bool, error) {
	return ask(ctx, c.run, onDomain("DomainIsPersistent", dom), func(ctx context.Context, b Backend) (bool, error) {
		return b.DomainIsPersistent(ctx, dom)
	})
}

func (c calls) DomainInterfaceAddresses(ctx context.Context, dom libvirt.Domain, source libvirt.DomainInterfaceAddressesSource) ([]libvirt.DomainInterface, error) {
	call := onDomain("DomainInterfaceAddresses", dom)
	call.detail = slog.Int("source", int(source))
	if source == libvirt.DomainInterfaceAddressesSrcAgent {
		call.lane, call.domain = laneAgent, dom.UUID
	}
	return ask(ctx, c.run, call, func(ctx context.Context, b Backend) ([]libvirt.DomainInterface, error) {
		return b.DomainInterfaceAddresses(ctx, dom, source)
	})
}

func (c calls) DomainDefineXML(ctx context.Context, xml string, flags libvirt.DomainDefineFlags) (libvirt.Domain, error) {
	return ask(ctx, c.run, route("DomainDefineXML", slog.Attr{}).withXML(xml), func(ctx context.Context, b Backend) (libvirt.Domain, error) {
		return b.DomainDefineXML(ctx, xml, flags)
	})
}

func (c calls) DomainCreate(ctx context.Context, dom libvirt.Domain, flags libvirt.DomainCreateFlags) error {
	return tell(ctx, c.run, onDomain("DomainCreate", dom), func(ctx context.Context, b Backend) error {
		return b.DomainCreate(ctx, dom, flags)
	})
}

func (c calls) DomainDestroy(ctx context.Context, dom libvirt.Domain) error {
	return tell(ctx, c.run, onDomain("DomainDestroy", dom), func(ctx context.Context, b Backend) error {
		return b.DomainDestroy(ctx, dom)
	})
}

func (c calls) DomainUndefine(ctx context.Context, dom libvirt.Domain, flags libvirt.DomainUndefineFlagsValues) error {
	return tell(ctx, c.run, onDomain("DomainUndefine", dom), func(ctx context.Context, b Backend) error {
		return b.DomainUndefine(ctx, dom, flags)
	})
}

func (c calls) DomainSetAutostart(ctx context.Context, dom libvirt.Domain, on bool) error {
	return tell(ctx, c.run, onDomain("DomainSetAutostart", dom), func(ctx context.Context, b Backend) error {
		return b.DomainSetAutostart(ctx, dom, on)
	})
}

func (c calls) DomainSetMetadata(ctx context.Context, dom libvirt.Domain, xml, key, uri string, flags libvirt.DomainModificationImpact) error {
	return tell(ctx, c.run, onDomain("DomainSetMetadata", dom).withXML(xml), func(ctx context.Context, b Backend) error {
		return b.DomainSetMetadata(ctx, dom, xml, key, uri, flags)
	})
}

func (c calls) NetworkLookupByName(ctx context.Context, name string) (libvirt.Network, error) {
	return ask(ctx, c.run, route("NetworkLookupByName", slog.String("network", name)), func(ctx context.Context, b Backend) (libvirt.Network, error) {
		return b.NetworkLookupByName(ctx, name)
	})
}

func (c calls) NetworkIsActive(ctx context.Context, net libvirt.Network) (bool, error) {
	return ask(ctx, c.run, route("NetworkIsActive", slog.String("network", net.Name)), func(ctx context.Context, b Backend) (bool, error) {
		return b.NetworkIsActive(ctx, net)
	})
}

func (c calls) NetworkGetDhcpLeases(ctx context.Context, net libvirt.Network) ([]libvirt.NetworkDhcpLease, error) {
	return ask(ctx, c.run, route("NetworkGetDhcpLeases", slog.String("network", net.Name)), func(ctx context.Context, b Backend) ([]libvirt.NetworkDhcpLease, error) {
		return b.NetworkGetDhcpLeases(ctx, net)
	})
}

func (c calls) InterfaceLookupByName(ctx context.Context, name string) (libvirt.Interface, error) {
	return ask(ctx, c.run, route("InterfaceLookupByName", slog.String("interface", name)), func(ctx context.Context, b Backend) (libvirt.Interface, error) {
		return b.InterfaceLookupByName(ctx, name)
	})
}
