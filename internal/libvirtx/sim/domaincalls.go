package sim

import (
	"context"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
)

// onDomain passes the gate and runs effect on the domain of that handle, which
// is found by its UUID alone.
func (c *conn) onDomain(ctx context.Context, method string, dom libvirt.Domain, effect func(*domain) error) error {
	return c.call(ctx, method, dom.Name, func() error {
		d := c.host.domains[dom.UUID]
		if d == nil {
			return fail(libvirt.ErrNoDomain, "Domain not found: no domain with matching uuid '%s' (%s)", uuid.UUID(dom.UUID), dom.Name)
		}
		return effect(d)
	})
}

func (c *conn) ConnectGetAllDomainStats(ctx context.Context) (out []libvirt.DomainStatsRecord, err error) {
	err = c.call(ctx, "ConnectGetAllDomainStats", "", func() error {
		for _, d := range c.host.sortedDomains() {
			out = append(out, libvirt.DomainStatsRecord{Dom: d.handle(), Params: []libvirt.TypedParam{
				{Field: "state.state", Value: *libvirt.NewTypedParamValueInt(int32(d.state))},
				{Field: "state.reason", Value: *libvirt.NewTypedParamValueInt(d.reason)},
			}})
		}
		return nil
	})
	return out, err
}

func (c *conn) DomainLookupByName(ctx context.Context, name string) (out libvirt.Domain, err error) {
	err = c.call(ctx, "DomainLookupByName", name, func() error {
		d := c.host.domainNamed(name)
		if d == nil {
			return fail(libvirt.ErrNoDomain, "Domain not found: no domain with matching name '%s'", name)
		}
		out = d.handle()
		return nil
	})
	return out, err
}

func (c *conn) DomainGetXMLDesc(ctx context.Context, dom libvirt.Domain, flags libvirt.DomainXMLFlags) (doc string, err error) {
	err = c.onDomain(ctx, "DomainGetXMLDesc", dom, func(d *domain) (err error) {
		def := d.current()
		if flags&libvirt.DomainXMLInactive != 0 && d.stored != nil {
			def = d.stored
		}
		doc, err = def.text(def == d.live && c.host.agentUp(d))
		return err
	})
	return doc, err
}

func (c *conn) DomainGetState(ctx context.Context, dom libvirt.Domain) (state, reason int32, err error) {
	err = c.onDomain(ctx, "DomainGetState", dom, func(d *domain) error {
		state, reason = int32(d.state), d.reason
		return nil
	})
	return state, reason, err
}

func (c *conn) DomainIsPersistent(ctx context.Context, dom libvirt.Domain) (persistent bool, err error) {
	err = c.onDomain(ctx, "DomainIsPersistent", dom, func(d *domain) error {
		persistent = d.stored != nil
		return nil
	})
	return persistent, err
}

func (c *conn) DomainDefineXML(ctx context.Context, xml string, flags libvirt.DomainDefineFlags) (out libvirt.Domain, err error) {
	err = c.call(ctx, "DomainDefineXML", "", func() error {
		def, err := c.host.parseDefinition(xml, flags&libvirt.DomainDefineValidate != 0)
		if err != nil {
			return err
		}
		d, err := c.host.define(def)
		if err != nil {
			return err
		}
		out = d.handle()
		return nil
	})
	return out, err
}

func (c *conn) DomainCreate(ctx context.Context, dom libvirt.Domain, flags libvirt.DomainCreateFlags) error {
	return c.onDomain(ctx, "DomainCreate", dom, func(d *domain) error { return c.host.start(d, flags) })
}

func (c *conn) DomainDestroy(ctx context.Context, dom libvirt.Domain) error {
	return c.onDomain(ctx, "DomainDestroy", dom, func(d *domain) error {
		if d.live == nil {
			return invalid("domain is not running")
		}
		c.host.stop(d, libvirt.DomainShutoffDestroyed)
		return nil
	})
}

func (c *conn) DomainUndefine(ctx context.Context, dom libvirt.Domain, flags libvirt.DomainUndefineFlagsValues) error {
	return c.onDomain(ctx, "DomainUndefine", dom, func(d *domain) error { return c.host.undefine(d, flags) })
}

func (c *conn) DomainSetAutostart(ctx context.Context, dom libvirt.Domain, on bool) error {
	return c.onDomain(ctx, "DomainSetAutostart", dom, func(d *domain) error {
		if d.stored == nil {
			return invalid("cannot set autostart for transient domain")
		}
		d.autostart = on
		return nil
	})
}

func (c *conn) DomainSetMetadata(
	ctx context.Context, dom libvirt.Domain, xml, key, uri string, flags libvirt.DomainModificationImpact,
) error {
	return c.onDomain(ctx, "DomainSetMetadata", dom, func(d *domain) error {
		if flags == libvirt.DomainAffectCurrent {
			flags = libvirt.DomainAffectConfig
			if d.live != nil {
				flags = libvirt.DomainAffectLive
			}
		}
		var targets []*definition
		if flags&libvirt.DomainAffectLive != 0 {
			if d.live == nil {
				return invalid("domain is not running")
			}
			targets = append(targets, d.live)
		}
		if flags&libvirt.DomainAffectConfig != 0 {
			if d.stored == nil {
				return invalid("transient domains do not have any persistent config")
			}
			targets = append(targets, d.stored)
		}
		for _, def := range targets {
			m, err := def.meta.with(xml, key, uri)
			if err != nil {
				return err
			}
			def.setMeta(m)
		}
		return nil
	})
}
