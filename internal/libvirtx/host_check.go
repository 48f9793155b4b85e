package libvirtx

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// minLibvirt is the oldest libvirt that is supported, 8.0.0, as libvirt counts.
const minLibvirt = 8_000_000

// Check looks at the host over a connection of its own. It never fails: what
// went wrong first is in the entry, beside all that could be learnt (H1 to H3).
func (h *Host) Check(ctx context.Context) instance.HostHealth {
	began := time.Now()
	e := &examination{host: h}
	e.details = instance.HostDetails{User: h.opts.User, Pool: h.opts.Pool}
	err := h.link.Fresh(ctx, func(ctx context.Context, be Backend) error {
		return e.run(ctx, be)
	})
	out := instance.HostHealth{
		Host:    h.opts.Name,
		Ready:   err == nil && !h.opts.Maintenance,
		Reason:  instance.ReasonReady,
		Message: "ready for instances",
		Latency: time.Since(began),
		Details: e.details,
	}
	switch {
	case err != nil:
		failed := h.fail("check host", "", err)
		out.Reason, out.Message = healthReason(instance.ReasonOf(failed)), failed.Error()
	case h.opts.Maintenance:
		out.Reason, out.Message = instance.ReasonMaintenance, "in maintenance: no new instances here"
	case nearlyFull(e.details):
		// It is as ready as ever for what runs on it.
		out.Message = fmt.Sprintf("ready, but pool %s is nearly full: %.2f of %.2f GiB are free",
			h.opts.Pool, *e.details.PoolAvailableGiB, *e.details.PoolCapacityGiB)
	}
	return out
}

// nearlyFull reports a pool with less than a tenth of its room left, as the alert
// Kvm2dPoolNearlyFull does.
func nearlyFull(d instance.HostDetails) bool {
	return d.PoolCapacityGiB != nil && d.PoolAvailableGiB != nil && *d.PoolAvailableGiB < *d.PoolCapacityGiB/10
}

// healthReason maps an error's reason to the words that health entries use.
func healthReason(r instance.Reason) instance.Reason {
	switch r {
	case instance.ReasonUnreachable, instance.ReasonTimeout, instance.ReasonAuthenticationFailed,
		instance.ReasonHostKeyRejected, instance.ReasonCredentialsUnavailable, instance.ReasonLibvirtTooOld,
		instance.ReasonPoolNotFound, instance.ReasonPoolNotActive, instance.ReasonFirmwareMissing,
		instance.ReasonMisconfigured:
		return r
	case instance.ReasonCancelled, instance.ReasonShuttingDown:
		return instance.ReasonTimeout
	case instance.ReasonNetworkNotFound, instance.ReasonNetworkNotActive:
		return instance.ReasonMisconfigured
	default:
		return instance.ReasonLibvirtUnavailable
	}
}

// examination is one run of Check over one connection.
type examination struct {
	host *Host
	// mu guards details, which the parts fill in side by side.
	mu      sync.Mutex
	details instance.HostDetails
}

func (e *examination) note(fill func(*instance.HostDetails)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fill(&e.details)
}

// run asks first for the version, then for everything else side by side, and
// returns what is wrong in a fixed order.
func (e *examination) run(ctx context.Context, be Backend) error {
	version, err := be.ConnectGetLibVersion(ctx)
	if err != nil {
		return err
	}
	e.note(func(d *instance.HostDetails) { d.LibvirtVersion = formatVersion(version) })
	if version < minLibvirt {
		return verdictf(instance.ReasonLibvirtTooOld, "libvirt %s, need 8.0.0 or later", formatVersion(version))
	}
	parts := []func(context.Context, Backend) error{e.name, e.pool, e.host.checkNIC, e.platform, e.memory}
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, part := range parts {
		wg.Go(func() { errs[i] = instance.Guard(func() error { return part(ctx, be) }) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *examination) name(ctx context.Context, be Backend) error {
	name, err := be.ConnectGetHostname(ctx)
	if err != nil {
		return err
	}
	e.note(func(d *instance.HostDetails) { d.Hostname = printable(name) })
	return nil
}

func (e *examination) memory(ctx context.Context, be Backend) error {
	free, err := be.NodeGetFreeMemory(ctx)
	if err != nil {
		return err
	}
	mib := clampBytes(free >> 20)
	e.note(func(d *instance.HostDetails) { d.MemoryFreeMiB = &mib })
	return nil
}

// platform tells the domain type and firmware. Without UEFI, the default of
// images, a host is not ready.
func (e *examination) platform(ctx context.Context, be Backend) error {
	p, err := e.host.readPlatform(ctx, be)
	e.note(func(d *instance.HostDetails) {
		d.HostUUID, d.DomainType, d.Firmware = printable(p.HostUUID), printable(p.DomainType), p.firmwareNames()
	})
	if err != nil {
		return err
	}
	e.host.platforms.put(p)
	if !p.has(instance.FirmwareUEFI) {
		return noFirmware(instance.FirmwareUEFI, p)
	}
	return nil
}

// pool refreshes the pool and reads its figures. A refusal to refresh is no
// fault: the pool is busy making volumes.
func (e *examination) pool(ctx context.Context, be Backend) error {
	h := e.host
	pool, err := be.StoragePoolLookupByName(ctx, h.opts.Pool)
	if err != nil {
		return h.namePool(err)
	}
	e.note(func(d *instance.HostDetails) { d.PoolUUID = uuid.UUID(pool.UUID).String() })
	if err := be.StoragePoolRefresh(ctx, pool); err != nil && !refusedByLibvirt(err) {
		return err
	}
	state, capacity, _, available, err := be.StoragePoolGetInfo(ctx, pool)
	if err != nil {
		return h.namePool(err)
	}
	e.note(func(d *instance.HostDetails) {
		d.PoolState = poolStateWord(state)
		if poolUsable(state) {
			d.PoolCapacityGiB, d.PoolAvailableGiB = gib(capacity), gib(available)
		}
	})
	if !poolUsable(state) {
		return h.notActive(state)
	}
	return nil
}

func gib(bytes uint64) *float64 {
	g := float64(bytes) / (1 << 30)
	return &g
}

// formatVersion takes libvirt's 1000000·major + 1000·minor + release.
func formatVersion(v uint64) string {
	return fmt.Sprintf("%d.%d.%d", v/1_000_000, v/1000%1000, v%1000)
}
