package libvirtx

import (
	"context"
	"fmt"
	"sync"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// platformAge is how long a host's capabilities are trusted: they change when
// somebody installs something there.
const platformAge = 5 * time.Minute

// platformCache remembers what a host can run. The zero value is ready.
type platformCache struct {
	mu    sync.Mutex
	known platform
	at    time.Time
}

func (c *platformCache) get() (platform, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known, !c.at.IsZero() && time.Since(c.at) < platformAge
}

func (c *platformCache) put(p platform) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.at = p, time.Now()
}

// platform tells how a domain with firmware fw is made here. What was
// remembered is read again before it is held against the host.
func (h *Host) platform(ctx context.Context, fw instance.Firmware) (platform, error) {
	if p, ok := h.platforms.get(); ok && p.has(fw) {
		return p, nil
	}
	p, err := h.readPlatform(ctx, h.be)
	if err != nil {
		return platform{}, err
	}
	h.platforms.put(p)
	if !p.has(fw) {
		return platform{}, noFirmware(fw, p)
	}
	return p, nil
}

func noFirmware(fw instance.Firmware, p platform) error {
	return verdictf(instance.ReasonFirmwareMissing, "no %s firmware for %s machines of architecture %s", fw, p.Machine, p.Arch)
}

// readPlatform asks be for both kinds of capabilities. A domain type or
// emulator that the host does not have is Misconfigured.
func (h *Host) readPlatform(ctx context.Context, be Backend) (platform, error) {
	doc, err := be.ConnectGetCapabilities(ctx)
	if err != nil {
		return platform{}, err
	}
	caps, err := parseCapabilities(doc)
	if err != nil {
		return platform{}, &verdict{reason: instance.ReasonMisconfigured, err: err}
	}
	domainType := chooseDomainType(h.opts.DomainType, caps.DomainTypes)
	machine := machineFor(caps.Arch)
	doc, err = be.ConnectGetDomainCapabilities(ctx, h.opts.Emulator, caps.Arch, machine, domainType)
	if err != nil {
		if h.cannotRun(err) {
			err = &verdict{
				reason: instance.ReasonMisconfigured,
				err:    fmt.Errorf("no domains of type %s%s: %w", domainType, h.emulatorWords(), err),
			}
		}
		return platform{HostUUID: caps.HostUUID}, err
	}
	p, err := parsePlatform(caps, machine, doc)
	if err != nil {
		return platform{HostUUID: caps.HostUUID}, &verdict{reason: instance.ReasonMisconfigured, err: err}
	}
	return p, nil
}

// cannotRun tells whether libvirt's answer is the configuration's fault. An
// emulator that is not there comes as a system error, which without one
// configured has other causes.
func (h *Host) cannotRun(err error) bool {
	if answered(err, libvirt.ErrInvalidArg, libvirt.ErrConfigUnsupported, libvirt.ErrNoSupport) {
		return true
	}
	return h.opts.Emulator != "" && answered(err, libvirt.ErrSystemError, libvirt.ErrInternalError)
}

func (h *Host) emulatorWords() string {
	if h.opts.Emulator == "" {
		return ""
	}
	return " with emulator " + h.opts.Emulator
}
