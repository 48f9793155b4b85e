package libvirtx

import (
	"context"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// Read reads m again by its UUID, in one round trip: the name is not looked
// up. Gone: InstanceNotFound.
func (h *Host) Read(ctx context.Context, m instance.Machine) (instance.Machine, error) {
	const op = "read domain"
	dom, err := domainOf(m)
	if err != nil {
		return instance.Machine{}, h.fail(op, m.Name, err)
	}
	// Whether it runs is not known yet, so whether it is persistent must be asked.
	dom.ID = 0
	read, _, _, err := h.readDomain(ctx, dom, false)
	if err != nil {
		return instance.Machine{}, h.fail(op, m.Name, err)
	}
	return read, nil
}

// SetAutostart says whether m comes back after its host rebooted. Gone:
// InstanceNotFound.
func (h *Host) SetAutostart(ctx context.Context, m instance.Machine, on bool) error {
	const op = "set autostart of domain"
	dom, err := domainOf(m)
	if err != nil {
		return h.fail(op, m.Name, err)
	}
	if err := h.be.DomainSetAutostart(ctx, dom, on); err != nil {
		return h.fail(op, m.Name, err)
	}
	return nil
}
