package libvirtx

import (
	"context"
	"errors"
	"sync"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// Preflight checks side by side what can be known before a define. Reasons:
// PoolNotFound, PoolNotActive, NetworkNotFound, NetworkNotActive,
// FirmwareMissing, Misconfigured.
func (h *Host) Preflight(ctx context.Context, fw instance.Firmware) error {
	checks := []func(context.Context) error{
		h.checkPool,
		func(ctx context.Context) error { return h.checkNIC(ctx, h.be) },
		func(ctx context.Context) error {
			_, err := h.platform(ctx, fw)
			return err
		},
	}
	errs := make([]error, len(checks))
	var wg sync.WaitGroup
	for i, check := range checks {
		wg.Go(func() { errs[i] = instance.Guard(func() error { return check(ctx) }) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return h.fail("check host", "", err)
		}
	}
	return nil
}

// checkPool fails unless the pool is there and in use.
func (h *Host) checkPool(ctx context.Context) error {
	info, err := h.poolInfo(ctx)
	if err != nil {
		return h.namePool(err)
	}
	if !poolUsable(info.state) {
		return h.notActive(info.state)
	}
	return nil
}

// namePool says which pool an absent one is.
func (h *Host) namePool(err error) error {
	if answered(err, libvirt.ErrNoStoragePool) {
		return verdictf(instance.ReasonPoolNotFound, "pool %s: %w", h.opts.Pool, err)
	}
	return err
}

// checkNIC fails unless what a domain's card is plugged into is there, as far
// as libvirt can say: many hosts run without its driver for interfaces.
func (h *Host) checkNIC(ctx context.Context, be Backend) error {
	if h.opts.Network != "" {
		return h.checkNetwork(ctx, be)
	}
	_, err := be.InterfaceLookupByName(ctx, h.opts.Bridge)
	if answered(err, libvirt.ErrNoInterface) {
		return verdictf(instance.ReasonMisconfigured, "bridge %s: %w", h.opts.Bridge, err)
	}
	if refusedByLibvirt(err) {
		return nil
	}
	return err
}

func (h *Host) checkNetwork(ctx context.Context, be Backend) error {
	var active bool
	err := h.networks.with(ctx, h.opts.Network, be.NetworkLookupByName, libvirt.ErrNoNetwork,
		func(network libvirt.Network) (err error) {
			active, err = be.NetworkIsActive(ctx, network)
			return err
		})
	switch {
	case answered(err, libvirt.ErrNoNetwork):
		return verdictf(instance.ReasonNetworkNotFound, "network %s: %w", h.opts.Network, err)
	case err != nil:
		return err
	case !active:
		return &verdict{
			reason: instance.ReasonNetworkNotActive,
			err:    errors.New("network " + h.opts.Network + " is not active"),
		}
	}
	return nil
}
