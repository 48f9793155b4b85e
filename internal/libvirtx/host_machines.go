package libvirtx

import (
	"context"
	"errors"
	"fmt"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// Define makes d known to the host: the commit of a create. A machine of that
// name with another UUID makes it fail with ErrAlreadyDefined in the chain.
func (h *Host) Define(ctx context.Context, d instance.Definition) error {
	const op = "define domain"
	p, err := h.platform(ctx, d.Firmware)
	if err != nil {
		return h.fail(op, d.Name, err)
	}
	doc, err := domainXML(d, p, h.nic())
	if err != nil {
		return h.fail(op, d.Name, &verdict{reason: instance.ReasonInternal, err: err})
	}
	h.log.Log(ctx, instance.LevelDetail, "domain described",
		"instance", d.Name, "uuid", d.UUID, "xml_bytes", len(doc), "domain_type", p.DomainType)
	dom, err := h.be.DomainDefineXML(ctx, doc, 0)
	if err != nil {
		if answered(err, libvirt.ErrOperationFailed) {
			err = fmt.Errorf("%w: %w", instance.ErrAlreadyDefined, err)
		}
		return h.fail(op, d.Name, err)
	}
	if !d.Autostart {
		return nil
	}
	if err := h.be.DomainSetAutostart(ctx, dom, true); err != nil {
		return h.fail("set autostart of domain", d.Name, err)
	}
	return nil
}

func (h *Host) nic() nic { return nic{Bridge: h.opts.Bridge, Network: h.opts.Network} }

// domainOf is the handle of m. libvirt goes by the UUID, so a namesake that
// was defined since is never touched.
func domainOf(m instance.Machine) (libvirt.Domain, error) {
	id, err := uuid.Parse(m.UUID)
	if err != nil {
		return libvirt.Domain{}, verdictf(instance.ReasonInternal, "domain uuid %q: %w", m.UUID, err)
	}
	return libvirt.Domain{Name: m.Name, UUID: libvirt.UUID(id), ID: stoppedID}, nil
}

// Start boots a defined machine, with fresh NVRAM when fresh. One that runs
// already is success. Reasons: StartFailed, Vanished.
func (h *Host) Start(ctx context.Context, m instance.Machine, fresh bool) error {
	const op = "start domain"
	dom, err := domainOf(m)
	if err != nil {
		return h.fail(op, m.Name, err)
	}
	err = h.create(ctx, dom, fresh)
	switch {
	case err == nil:
		return nil
	case answered(err, libvirt.ErrNoDomain):
		return h.fail(op, m.Name, &verdict{reason: instance.ReasonVanished, err: err})
	case answered(err, libvirt.ErrOperationInvalid) && h.isOn(ctx, dom):
		return nil
	case refusedByLibvirt(err) && Classify(err).Kind() != instance.Permanent:
		// libvirt tried and could not: its text says why.
		return h.fail(op, m.Name, &verdict{reason: instance.ReasonStartFailed, err: err})
	default:
		return h.fail(op, m.Name, err)
	}
}

// create starts dom, without the flag where this libvirt does not know it: the
// flag guards against an older namesake's NVRAM, which undefining removes too.
func (h *Host) create(ctx context.Context, dom libvirt.Domain, fresh bool) error {
	if !fresh {
		return h.be.DomainCreate(ctx, dom, 0)
	}
	err := h.be.DomainCreate(ctx, dom, libvirt.DomainStartResetNvram)
	if answered(err, libvirt.ErrInvalidArg, libvirt.ErrNoSupport) || errors.Is(err, libvirt.ErrUnsupported) {
		return h.be.DomainCreate(ctx, dom, 0)
	}
	return err
}

// isOn reads whether dom runs, paused included; false when that cannot be known.
func (h *Host) isOn(ctx context.Context, dom libvirt.Domain) bool {
	state, reason, err := h.be.DomainGetState(ctx, dom)
	if err != nil {
		return false
	}
	power, _ := mapState(state, reason)
	return power == instance.PowerOn || power == instance.PowerPaused
}

// Stop pulls the plug. A machine that is off or gone is success.
func (h *Host) Stop(ctx context.Context, m instance.Machine) error {
	const op = "destroy domain"
	dom, err := domainOf(m)
	if err != nil {
		return h.fail(op, m.Name, err)
	}
	err = h.be.DomainDestroy(ctx, dom)
	if err == nil || answered(err, libvirt.ErrNoDomain) {
		return nil
	}
	if !answered(err, libvirt.ErrOperationInvalid) {
		return h.fail(op, m.Name, err)
	}
	state, reason, readErr := h.be.DomainGetState(ctx, dom)
	if answered(readErr, libvirt.ErrNoDomain) {
		return nil
	}
	if readErr != nil {
		return h.fail(op, m.Name, readErr)
	}
	if power, word := mapState(state, reason); power != instance.PowerOff {
		return h.fail(op, m.Name, fmt.Errorf("domain is %s: %w", word, err))
	}
	return nil
}

// SetMark replaces the mark of m, live where it runs and stored where it is
// persistent. Gone: InstanceNotFound.
func (h *Host) SetMark(ctx context.Context, m instance.Machine, mark instance.Mark) error {
	const op = "mark domain"
	dom, err := domainOf(m)
	if err != nil {
		return h.fail(op, m.Name, err)
	}
	doc, err := formatMark(mark)
	if err != nil {
		return h.fail(op, m.Name, &verdict{reason: instance.ReasonInternal, err: err})
	}
	for _, impact := range markImpacts(m) {
		err = h.be.DomainSetMetadata(ctx, dom, doc, markPrefix, markNamespace, impact)
		if !answered(err, libvirt.ErrOperationInvalid) {
			break
		}
	}
	if err != nil {
		return h.fail(op, m.Name, err)
	}
	return nil
}

// markImpacts says where a mark goes, best first: the others are for a machine
// that stopped, or was undefined, since it was read.
func markImpacts(m instance.Machine) []libvirt.DomainModificationImpact {
	const live, stored = libvirt.DomainAffectLive, libvirt.DomainAffectConfig
	switch {
	case !m.Persistent:
		return []libvirt.DomainModificationImpact{live}
	case m.Power == instance.PowerOn || m.Power == instance.PowerPaused:
		return []libvirt.DomainModificationImpact{live | stored, stored, live}
	default:
		return []libvirt.DomainModificationImpact{stored, live}
	}
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

// undefineFlags are tried in order, each for a libvirt that does not know the one before.
var undefineFlags = []libvirt.DomainUndefineFlagsValues{
	libvirt.DomainUndefineNvram | libvirt.DomainUndefineManagedSave |
		libvirt.DomainUndefineSnapshotsMetadata | libvirt.DomainUndefineCheckpointsMetadata,
	libvirt.DomainUndefineNvram | libvirt.DomainUndefineManagedSave | libvirt.DomainUndefineSnapshotsMetadata,
	0,
}

// Undefine forgets the machine with its NVRAM, managed save, snapshot and
// checkpoint records. Gone, or living on without a definition, is success.
func (h *Host) Undefine(ctx context.Context, m instance.Machine) error {
	const op = "undefine domain"
	dom, err := domainOf(m)
	if err != nil {
		return h.fail(op, m.Name, err)
	}
	for _, flags := range undefineFlags {
		err = h.be.DomainUndefine(ctx, dom, flags)
		if !answered(err, libvirt.ErrInvalidArg, libvirt.ErrNoSupport) {
			break
		}
	}
	switch {
	case err == nil, answered(err, libvirt.ErrNoDomain):
		return nil
	case answered(err, libvirt.ErrOperationInvalid) && h.isTransient(ctx, dom):
		return nil
	default:
		return h.fail(op, m.Name, err)
	}
}

// isTransient reads whether dom has no definition that could be undefined;
// false when that cannot be known.
func (h *Host) isTransient(ctx context.Context, dom libvirt.Domain) bool {
	persistent, err := h.be.DomainIsPersistent(ctx, dom)
	return err == nil && !persistent
}
