package instance_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// room is one libvirt in memory: what is defined, what runs, what is in the
// pool. Several fakeHosts, those of several daemons, may look at one room.
type room struct {
	mu      sync.Mutex
	domains map[string]*instance.Machine
	volumes map[string]*fakeVolume
	// pool, when not "", is the reason with which every volume call fails.
	pool instance.Reason
	// available is the pool's free space.
	available int64
	autostart map[string]bool
	// onStart, when set, is what a start makes of a machine.
	onStart func(*instance.Machine)
	// fresh counts the starts with fresh NVRAM, by UUID.
	fresh map[string]int
	// defines counts the machines that were defined.
	defines int
}

type fakeVolume struct {
	instance.Volume
	content []byte
}

func newRoom() *room {
	return &room{
		domains: map[string]*instance.Machine{}, volumes: map[string]*fakeVolume{},
		autostart: map[string]bool{}, fresh: map[string]int{}, available: 1 << 40,
	}
}

// hook sees every call of one fakeHost or fakeImages before it acts. It may
// block until ctx ends. before replaces the call, after loses its answer.
type hook func(ctx context.Context, call string) (before, after error)

// fakeHost is one daemon's view of a room.
type fakeHost struct {
	*room
	name        string
	hook        hook
	maintenance bool
	health      func(context.Context) instance.HostHealth
	addresses   []instance.Address
	preflight   error
	skipped     int
	// poolDir, when set, is another pool's than the room's, /pool.
	poolDir string
	calls   atomic.Int64
}

var _ instance.Host = (*fakeHost)(nil)

func (f *fakeHost) fail(r instance.Reason, op, subject string, cause error) error {
	return &instance.Error{Reason: r, Op: op, Detail: subject, Host: f.name, Err: cause}
}

// do runs one call: hook, end of ctx, effect under the room's lock, hook's loss.
func (f *fakeHost) do(ctx context.Context, call string, effect func() error) error {
	f.calls.Add(1)
	var after error
	if f.hook != nil {
		var before error
		if before, after = f.hook(ctx, call); before != nil {
			return before
		}
	}
	if err := ctx.Err(); err != nil {
		return f.fail(instance.ReasonOf(err), call, "", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := effect(); err != nil {
		return err
	}
	return after
}

// pooled is do for a volume call.
func (f *fakeHost) pooled(ctx context.Context, call string, effect func() error) error {
	return f.do(ctx, call, func() error {
		if f.pool != "" {
			return f.fail(f.pool, call, "", nil)
		}
		return effect()
	})
}

func (f *fakeHost) Name() string        { return f.name }
func (f *fakeHost) InMaintenance() bool { return f.maintenance }

func (f *fakeHost) Preflight(ctx context.Context, _ instance.Firmware) error {
	return f.do(ctx, "Preflight", func() error { return f.preflight })
}

func (f *fakeHost) Check(ctx context.Context) instance.HostHealth {
	if f.health != nil {
		return f.health(ctx)
	}
	if f.maintenance {
		return instance.HostHealth{Host: f.name, Reason: instance.ReasonMaintenance}
	}
	return instance.HostHealth{Host: f.name, Ready: true, Reason: instance.ReasonReady}
}

func (f *fakeHost) Find(ctx context.Context, name string) (m instance.Machine, err error) {
	err = f.do(ctx, "Find", func() error {
		d, ok := f.domains[name]
		if !ok {
			return f.fail(instance.ReasonInstanceNotFound, "find", name, nil)
		}
		m = *d
		return nil
	})
	return m, err
}

func (f *fakeHost) FindWithAddresses(ctx context.Context, name string) (instance.Machine, error) {
	m, err := f.Find(ctx, name)
	m.Addresses = f.addresses
	return m, err
}

// byUUID returns the machine of m's UUID, nil when it is gone.
func (f *fakeHost) byUUID(m instance.Machine) *instance.Machine {
	if d := f.domains[m.Name]; d != nil && d.UUID == m.UUID {
		return d
	}
	return nil
}

func (f *fakeHost) Read(ctx context.Context, m instance.Machine) (out instance.Machine, err error) {
	err = f.do(ctx, "Read", func() error {
		d := f.byUUID(m)
		if d == nil {
			return f.fail(instance.ReasonInstanceNotFound, "read", m.Name, nil)
		}
		out = *d
		return nil
	})
	return out, err
}

func (f *fakeHost) List(ctx context.Context) (l instance.Listing, err error) {
	err = f.do(ctx, "List", func() error {
		for _, name := range slices.Sorted(maps.Keys(f.domains)) {
			m := *f.domains[name]
			m.Addresses = f.addresses
			l.Machines = append(l.Machines, m)
		}
		l.Skipped = f.skipped
		return nil
	})
	return l, err
}

func (f *fakeHost) Define(ctx context.Context, d instance.Definition) error {
	return f.do(ctx, "Define", func() error {
		mark := d.Mark
		if there := f.domains[d.Name]; there != nil && there.UUID != d.UUID {
			return f.fail(instance.ReasonLibvirtError, "define", d.Name, instance.ErrAlreadyDefined)
		} else if there == nil {
			f.domains[d.Name] = &instance.Machine{Name: d.Name, UUID: d.UUID}
			f.defines++
		}
		m := f.domains[d.Name]
		m.Mark, m.Persistent = &mark, true
		m.RootDisk = d.OverlayPath
		m.Overlay = d.OverlayPath[strings.LastIndex(d.OverlayPath, "/")+1:]
		f.autostart[d.UUID] = d.Autostart
		return nil
	})
}

func (f *fakeHost) SetAutostart(ctx context.Context, m instance.Machine, on bool) error {
	return f.do(ctx, "SetAutostart", func() error {
		f.autostart[m.UUID] = on
		return nil
	})
}

func (f *fakeHost) Start(ctx context.Context, m instance.Machine, fresh bool) error {
	return f.do(ctx, "Start", func() error {
		d := f.byUUID(m)
		switch {
		case d == nil:
			return f.fail(instance.ReasonVanished, "start", m.Name, nil)
		case d.Power == instance.PowerOn:
			return nil
		case f.volumes[d.Overlay] == nil, f.seedOf(d) == nil, f.seedOf(d).Format == "dir":
			return f.fail(instance.ReasonStartFailed, "start", m.Name, errors.New("no disk"))
		}
		if fresh {
			f.fresh[d.UUID]++
		}
		d.Power, d.PowerReason = instance.PowerOn, ""
		if f.onStart != nil {
			f.onStart(d)
		}
		return nil
	})
}

func (f *fakeHost) seedOf(m *instance.Machine) *fakeVolume {
	return f.volumes[strings.Replace(m.Overlay, "root.qcow2", "seed.iso", 1)]
}

func (f *fakeHost) Stop(ctx context.Context, m instance.Machine) error {
	return f.do(ctx, "Stop", func() error {
		if d := f.byUUID(m); d != nil {
			d.Power = instance.PowerOff
			if !d.Persistent {
				delete(f.domains, m.Name)
			}
		}
		return nil
	})
}

// RootDiskInPool goes by the machine's path.
func (f *fakeHost) RootDiskInPool(ctx context.Context, m instance.Machine) (in bool, err error) {
	err = f.do(ctx, "RootDiskInPool", func() error {
		in = m.RootDisk == "" || strings.HasPrefix(m.RootDisk, f.dir()+"/")
		return nil
	})
	return in, err
}

func (f *fakeHost) dir() string {
	if f.poolDir != "" {
		return f.poolDir
	}
	return "/pool"
}

func (f *fakeHost) SetMark(ctx context.Context, m instance.Machine, mark instance.Mark) error {
	return f.do(ctx, "SetMark", func() error {
		d := f.byUUID(m)
		if d == nil {
			return f.fail(instance.ReasonInstanceNotFound, "mark", m.Name, nil)
		}
		d.Mark = &mark
		return nil
	})
}

// Undefine lets a running machine run on, as libvirt does.
func (f *fakeHost) Undefine(ctx context.Context, m instance.Machine) error {
	return f.do(ctx, "Undefine", func() error {
		if d := f.byUUID(m); d != nil && d.Power == instance.PowerOff {
			delete(f.domains, m.Name)
		} else if d != nil {
			d.Persistent = false
		}
		return nil
	})
}

func (f *fakeHost) Volumes(ctx context.Context, prefix string) (out []instance.Volume, err error) {
	err = f.pooled(ctx, "Volumes", func() error {
		for _, name := range slices.Sorted(maps.Keys(f.volumes)) {
			if strings.HasPrefix(name, prefix) {
				out = append(out, f.volumes[name].Volume)
			}
		}
		return nil
	})
	return out, err
}

func (f *fakeHost) Volume(ctx context.Context, name string) (v instance.Volume, err error) {
	err = f.pooled(ctx, "Volume", func() error {
		there, ok := f.volumes[name]
		if !ok {
			return f.fail(instance.ReasonVanished, "read volume", name, instance.ErrNoVolume)
		}
		v = there.Volume
		return nil
	})
	return v, err
}

func (f *fakeHost) CreateVolume(ctx context.Context, n instance.NewVolume) (v instance.Volume, err error) {
	err = f.pooled(ctx, "CreateVolume", func() error {
		if f.volumes[n.Name] != nil {
			return f.fail(instance.ReasonLibvirtError, "create volume", n.Name, instance.ErrVolumeExists)
		}
		v = instance.Volume{
			Name: n.Name, Path: "/pool/" + n.Name, Format: n.Format,
			CapacityBytes: n.CapacityBytes, BackingPath: n.BackingPath,
		}
		f.volumes[n.Name] = &fakeVolume{Volume: v}
		return nil
	})
	return v, err
}

func (f *fakeHost) Upload(ctx context.Context, name string, src io.Reader, length int64) error {
	return f.pooled(ctx, "Upload", func() error {
		v := f.volumes[name]
		if v == nil || v.Format == "dir" {
			return f.fail(instance.ReasonVanished, "upload", name, instance.ErrNoVolume)
		}
		content, err := io.ReadAll(io.LimitReader(src, length))
		v.content = content
		return err
	})
}

func (f *fakeHost) DeleteVolume(ctx context.Context, name string) error {
	return f.pooled(ctx, "DeleteVolume", func() error {
		delete(f.volumes, name)
		return nil
	})
}

func (f *fakeHost) Rescan(ctx context.Context) error {
	return f.pooled(ctx, "Rescan", func() error { return nil })
}

func (f *fakeHost) CheckSpace(ctx context.Context, needed int64) (int64, error) {
	err := f.pooled(ctx, "CheckSpace", func() error {
		if f.available < needed {
			return f.fail(instance.ReasonPoolFull, "check space", "pool default", nil)
		}
		return nil
	})
	return f.available, err
}

func (f *fakeHost) ReadVolume(ctx context.Context, name string, maxBytes int64) (out []byte, err error) {
	err = f.pooled(ctx, "ReadVolume", func() error {
		v, ok := f.volumes[name]
		if !ok {
			return f.fail(instance.ReasonVanished, "read volume", name, instance.ErrNoVolume)
		}
		out = v.content[max(0, int64(len(v.content))-maxBytes):]
		return nil
	})
	return out, err
}

// fakeHosts are the configured hosts of one daemon.
type fakeHosts []*fakeHost

func (h fakeHosts) Host(name string) (instance.Host, bool) {
	for _, f := range h {
		if f.name == name {
			return f, true
		}
	}
	return nil, false
}

func (h fakeHosts) All() []instance.Host {
	all := make([]instance.Host, 0, len(h))
	for _, f := range h {
		all = append(all, f)
	}
	return all
}

// snapshot is what is in a room besides base images, for comparison.
func (r *room) snapshot(t *testing.T) (domains map[string]instance.Machine, volumes []string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	domains = map[string]instance.Machine{}
	for name, d := range r.domains {
		domains[name] = *d
	}
	for _, name := range slices.Sorted(maps.Keys(r.volumes)) {
		if !strings.HasPrefix(name, "kvm2-base.") {
			volumes = append(volumes, name)
		}
	}
	return domains, volumes
}
