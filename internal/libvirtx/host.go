package libvirtx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// HostOptions are what a Host is made of. Name, Link, Owner, Pool, and one of
// Bridge and Network are required.
type HostOptions struct {
	// Name is the configured name, a DNS-1123 label.
	Name string
	// Link is the way to the host's libvirt. The Host does not close it; Hosts.Close does.
	Link *Link
	// Owner is whose marks List looks for.
	Owner string
	// Pool is the storage pool of all volumes.
	Pool string
	// Bridge or Network is what a domain's network card is plugged into.
	Bridge  string
	Network string
	// DomainType is auto, kvm or qemu; "" is auto.
	DomainType string
	// Emulator replaces the one that the host's capabilities name.
	Emulator string
	// Maintenance refuses new instances.
	Maintenance bool
	// User is whom the link logs in as, for the health entry only.
	User string
	// Log gets details below Debug; nil discards them.
	Log *slog.Logger
}

// Host is one configured machine, spoken to through its Link. It implements
// instance.Host: what libvirt answers is translated here, and every error
// leaves as an *instance.Error, wrapped once, that names the host.
type Host struct {
	opts HostOptions
	link *Link
	be   Backend
	log  *slog.Logger

	pools     handleCache[libvirt.StoragePool]
	networks  handleCache[libvirt.Network]
	platforms platformCache
	dir       poolDir
	space     spaceBook
	agents    agentCache
	views     viewCache
}

var _ instance.Host = (*Host)(nil)

// NewHost makes a host; it does no I/O. The error names every option that is missing or wrong.
func NewHost(o HostOptions) (*Host, error) {
	var wrong []string
	need := func(ok bool, what string) {
		if !ok {
			wrong = append(wrong, what)
		}
	}
	need(instance.ValidLabel(o.Name), "Name")
	need(o.Link != nil, "Link")
	need(instance.ValidLabel(o.Owner), "Owner")
	need(o.Pool != "", "Pool")
	need((o.Bridge == "") != (o.Network == ""), "Bridge or Network, not both")
	need(slices.Contains([]string{"", domainTypeAuto, domainTypeKVM, domainTypeQEMU}, o.DomainType), "DomainType")
	if len(wrong) > 0 {
		return nil, fmt.Errorf("new host %s: missing or wrong: %s", o.Name, strings.Join(wrong, ", "))
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Host{
		opts: o,
		link: o.Link,
		be:   o.Link.Backend(),
		log:  o.Log.With("host", o.Name),
	}, nil
}

// Name is the configured name.
func (h *Host) Name() string { return h.opts.Name }

// InMaintenance reports whether new instances are refused here.
func (h *Host) InMaintenance() bool { return h.opts.Maintenance }

// verdict is a cause whose reason follows from the place where it was met,
// not from its number alone. It lives until fail takes it apart.
type verdict struct {
	reason instance.Reason
	err    error
}

func (v *verdict) Error() string { return v.err.Error() }
func (v *verdict) Unwrap() error { return v.err }

func verdictf(r instance.Reason, format string, args ...any) error {
	return &verdict{reason: r, err: fmt.Errorf(format, args...)}
}

// fail is where an error leaves this package: it gets its reason, what was
// being done, to what and where. subject may be an instance's or a volume's name, or "".
func (h *Host) fail(op, subject string, err error) error {
	out := &instance.Error{Reason: Classify(err), Op: op, Host: h.opts.Name, Err: err}
	if v, ok := errors.AsType[*verdict](err); ok {
		out.Reason, out.Err = v.reason, v.err
	}
	if name, ok := instanceOfVolume(subject); ok {
		out.Instance, out.Detail = name, subject
	} else if instance.ValidLabel(subject) {
		out.Instance = subject
	} else {
		out.Detail = subject
	}
	return out
}

// instanceOfVolume finds the instance in kvm2.<owner>.<name>.<uuid8>.<what>.
func instanceOfVolume(volume string) (name string, ok bool) {
	parts := strings.Split(volume, ".")
	if len(parts) < 5 || parts[0] != markPrefix {
		return "", false
	}
	return parts[2], true
}

// answered reports whether err is libvirt's answer with one of these numbers.
func answered(err error, numbers ...libvirt.ErrorNumber) bool {
	e, ok := errors.AsType[libvirt.Error](err)
	return ok && slices.Contains(numbers, libvirt.ErrorNumber(e.Code))
}

// refusedByLibvirt reports whether libvirt itself answered, with any error.
func refusedByLibvirt(err error) bool {
	return as[libvirt.Error](err) || errors.Is(err, libvirt.ErrUnsupported)
}

// withPool runs fn with the pool's handle, which is looked up once and again
// when the host no longer knows it: a pool may be deleted and made anew.
func (h *Host) withPool(ctx context.Context, fn func(libvirt.StoragePool) error) error {
	return h.pools.with(ctx, h.opts.Pool, h.be.StoragePoolLookupByName, libvirt.ErrNoStoragePool, fn)
}

// withNetwork is withPool for a libvirt network.
func (h *Host) withNetwork(ctx context.Context, name string, fn func(libvirt.Network) error) error {
	return h.networks.with(ctx, name, h.be.NetworkLookupByName, libvirt.ErrNoNetwork, fn)
}
