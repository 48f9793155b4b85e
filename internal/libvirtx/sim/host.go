package sim

import (
	"context"
	"hash/fnv"
	"net/netip"
	"slices"
	"sync"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
)

// Options describe a simulated host. Every field has a default.
type Options struct {
	// Name is the hostname ("sim"); host, pool and network UUIDs derive from it.
	Name string
	// Pool is the storage pool ("default") in directory PoolPath
	// ("/var/lib/libvirt/images") of PoolCapacityBytes (100 GiB).
	Pool              string
	PoolPath          string
	PoolCapacityBytes uint64
	// Networks are libvirt networks, active ("default"). Bridges are the host's
	// own ("br0").
	Networks []string
	Bridges  []string
	// Subnet is where guests get their addresses from. The default is part of
	// 10.77.0.0/16, chosen by Name.
	Subnet netip.Prefix
	// BootDelay is from a start until agent and lease tell an address; 0 means
	// 2 s, negative at once. ARP follows ARPDelay later; 0 means 5 s, negative at once.
	BootDelay time.Duration
	ARPDelay  time.Duration
	// Latency is how long each call takes.
	Latency time.Duration
	// LibVersion is libvirt's (9000000).
	LibVersion uint64
	// MemoryBytes is the host's free memory without guests (16 GiB).
	MemoryBytes uint64
	// NoFirmware: no OVMF on the host. NoKVM: only the emulated domain type.
	NoFirmware bool
	NoKVM      bool
	// KVMPauses makes guests of type kvm pause right after their start, for
	// KVMPauseReason (unknown): hosts that offer KVM and cannot run it.
	KVMPauses      bool
	KVMPauseReason libvirt.DomainPausedReason
	// NoInterfaceDriver makes interface calls answer "no support".
	NoInterfaceDriver bool
	// Now is the clock (time.Now).
	Now func() time.Time
}

// Host is a simulated libvirt host. It implements libvirtx.Connector; all its
// connections share its state. All methods are safe for concurrent use.
type Host struct {
	opts   Options
	faults faults

	mu      sync.Mutex
	down    error
	conns   map[*conn]struct{}
	opened  int
	lastID  int32
	lastNIC int

	domains  map[libvirt.UUID]*domain
	nvram    map[string]string // file path → UUID of the domain that it was made for
	addrs    *addressBook
	pools    []*pool
	primary  *pool // the pool of the Options, which the helpers are about
	networks map[string]*network
	bridges  []string
}

var _ libvirtx.Connector = (*Host)(nil)

// NewHost makes a host with an empty pool and no domains.
func NewHost(o Options) *Host {
	o = o.withDefaults()
	h := &Host{
		opts:     o,
		conns:    map[*conn]struct{}{},
		domains:  map[libvirt.UUID]*domain{},
		nvram:    map[string]string{},
		addrs:    newAddressBook(o.Subnet),
		networks: map[string]*network{},
		bridges:  slices.Clone(o.Bridges),
	}
	h.faults.latency = o.Latency
	h.primary = newPool(o.Pool, o.PoolPath, o.PoolCapacityBytes, h.idFor("pool/"+o.Pool))
	h.pools = []*pool{h.primary}
	for i, name := range o.Networks {
		h.networks[name] = &network{name: name, uuid: h.idFor("network/" + name), bridge: bridgeName(i), active: true}
	}
	return h
}

func (o Options) withDefaults() Options {
	def(&o.Name, "sim")
	def(&o.Pool, "default")
	def(&o.PoolPath, "/var/lib/libvirt/images")
	def(&o.PoolCapacityBytes, 100<<30)
	def(&o.LibVersion, 9000000)
	def(&o.MemoryBytes, 16<<30)
	def(&o.BootDelay, 2*time.Second)
	def(&o.ARPDelay, 5*time.Second)
	o.BootDelay, o.ARPDelay = max(0, o.BootDelay), max(0, o.ARPDelay)
	if o.Networks == nil {
		o.Networks = []string{"default"}
	}
	if o.Bridges == nil {
		o.Bridges = []string{"br0"}
	}
	if !o.Subnet.IsValid() {
		f := fnv.New32a()
		_, _ = f.Write([]byte(o.Name))
		o.Subnet = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 77, byte(f.Sum32()), 0}), 16)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// idFor derives a UUID that is stable over restarts of the program.
func (h *Host) idFor(what string) libvirt.UUID {
	return libvirt.UUID(uuid.NewSHA1(uuid.NameSpaceDNS, []byte("kvm2d-sim/"+h.opts.Name+"/"+what)))
}

func (h *Host) now() time.Time { return h.opts.Now() }

// Connect opens a connection. It honours ctx while it is slow or stalled, as a
// dialer does, and passes the same gate as every call, under the name Connect.
func (h *Host) Connect(ctx context.Context) (libvirtx.Conn, error) {
	v, err := h.enter(ctx, nil, "Connect", "")
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	err = h.down
	h.mu.Unlock()
	if err = v.leave(err); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened++
	c := &conn{host: h, number: h.opened, done: make(chan struct{})}
	h.conns[c] = struct{}{}
	return c, nil
}

// Down makes every Connect fail with err from now on. Connections that are
// open stay: see Drop.
func (h *Host) Down(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = err
}

// Up ends Down.
func (h *Host) Up() { h.Down(nil) }

// Drop ends every open connection, as a libvirtd that is killed does. State
// and running guests stay.
func (h *Host) Drop() {
	h.mu.Lock()
	open := make([]*conn, 0, len(h.conns))
	for c := range h.conns {
		open = append(open, c)
	}
	h.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}

// OpenConns counts connections that nobody closed.
func (h *Host) OpenConns() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns)
}

// Connects counts the connections ever opened.
func (h *Host) Connects() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.opened
}
