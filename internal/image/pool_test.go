package image

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const poolDir = "/pool/"

// memPool is a storage pool in memory with libvirt's manners: atomic creates,
// deletes that protect nothing, sparse volumes, a capacity read from what was
// uploaded, and a clock of its own.
type memPool struct {
	host string
	// fault, when set, is asked before (done false) and after (done true) each
	// call; its error is the call's.
	fault func(call, name string, done bool) error
	// drain keeps no content, only its length and head.
	drain bool
	// pause is how long an upload waits before each chunk.
	pause time.Duration

	mu        sync.Mutex
	volumes   map[string]*memVolume
	freeBytes int64
	calls     []string
	asked     []int64 // by CheckSpace
	clock     time.Time
}

type memVolume struct {
	instance.Volume
	content []byte
}

func newMemPool(host string) *memPool {
	return &memPool{host: host, volumes: map[string]*memVolume{}, freeBytes: 1 << 40, clock: time.Unix(1e9, 0)}
}

func (p *memPool) fail(r instance.Reason, op string, err error) error {
	return &instance.Error{Reason: r, Op: op, Host: p.host, Err: err}
}

// enter notes a call and asks for a fault.
func (p *memPool) enter(ctx context.Context, call, name string) error {
	p.mu.Lock()
	p.calls = append(p.calls, call+" "+name)
	p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return p.fail(instance.ReasonOf(err), call, err)
	}
	return p.ask(call, name, false)
}

func (p *memPool) leave(call, name string) error { return p.ask(call, name, true) }

func (p *memPool) ask(call, name string, done bool) error {
	p.mu.Lock()
	fault := p.fault
	p.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(call, name, done)
}

// plant sets the fault, nil for none.
func (p *memPool) plant(fault func(call, name string, done bool) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

func (p *memPool) Volumes(ctx context.Context, prefix string) ([]instance.Volume, error) {
	if err := p.enter(ctx, "Volumes", prefix); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []instance.Volume
	for name, v := range p.volumes {
		if strings.HasPrefix(name, prefix) {
			out = append(out, v.Volume)
		}
	}
	slices.SortFunc(out, func(a, b instance.Volume) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

func (p *memPool) Volume(ctx context.Context, name string) (instance.Volume, error) {
	if err := p.enter(ctx, "Volume", name); err != nil {
		return instance.Volume{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.volumes[name]
	if !ok {
		return instance.Volume{}, p.fail(instance.ReasonVanished, "read volume", instance.ErrNoVolume)
	}
	return v.Volume, nil
}

func (p *memPool) CreateVolume(ctx context.Context, n instance.NewVolume) (instance.Volume, error) {
	if err := p.enter(ctx, "CreateVolume", n.Name); err != nil {
		return instance.Volume{}, err
	}
	v, err := p.create(n)
	if err != nil {
		return instance.Volume{}, err
	}
	if err := p.leave("CreateVolume", n.Name); err != nil {
		return instance.Volume{}, err
	}
	return v, nil
}

func (p *memPool) create(n instance.NewVolume) (instance.Volume, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.volumes[n.Name]; ok {
		return instance.Volume{}, p.fail(instance.ReasonLibvirtError, "create volume", instance.ErrVolumeExists)
	}
	if n.BackingPath != "" && !p.hasPath(n.BackingPath) {
		return instance.Volume{}, p.fail(instance.ReasonLibvirtError, "create volume", fmt.Errorf("no backing file %s", n.BackingPath))
	}
	p.clock = p.clock.Add(time.Second)
	v := &memVolume{Volume: instance.Volume{
		Name: n.Name, Path: poolDir + n.Name, Format: n.Format, CapacityBytes: n.CapacityBytes,
		BackingPath: n.BackingPath, ModifiedAt: p.clock,
	}}
	p.volumes[n.Name] = v
	return v.Volume, nil
}

func (p *memPool) hasPath(path string) bool {
	_, ok := p.volumes[strings.TrimPrefix(path, poolDir)]
	return ok
}

func (p *memPool) Upload(ctx context.Context, name string, src io.Reader, length int64) error {
	if err := p.enter(ctx, "Upload", name); err != nil {
		return err
	}
	type outcome struct{ err error }
	ended := make(chan outcome, 1)
	go func() { ended <- outcome{p.receive(ctx, name, src, length)} }()
	select {
	case o := <-ended:
		if o.err != nil {
			return o.err
		}
		return p.leave("Upload", name)
	case <-ctx.Done():
		return p.fail(instance.ReasonOf(ctx.Err()), "upload volume", ctx.Err())
	}
}

// receive takes src in chunks, as far as there is room.
func (p *memPool) receive(ctx context.Context, name string, src io.Reader, length int64) error {
	chunk := make([]byte, 1<<20)
	var got int64
	for got < length && ctx.Err() == nil {
		time.Sleep(p.pause)
		n, err := src.Read(chunk[:min(int64(len(chunk)), length-got)])
		if stored := p.append(name, chunk[:n]); stored != nil {
			return stored
		}
		got += int64(n)
		if err != nil && got < length {
			return p.fail(instance.ReasonLibvirtError, "upload volume", fmt.Errorf("source ended after %d of %d bytes: %w", got, length, err))
		}
	}
	p.settle(name)
	return nil
}

func (p *memPool) append(name string, b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.volumes[name]
	if !ok {
		return nil // an unlinked file takes everything
	}
	if int64(len(b)) > p.freeBytes {
		return p.fail(instance.ReasonPoolFull, "upload volume", fmt.Errorf("no space left"))
	}
	p.freeBytes -= int64(len(b))
	p.clock = p.clock.Add(time.Second)
	v.ModifiedAt = p.clock
	v.PhysicalBytes += int64(len(b))
	v.AllocationBytes = v.PhysicalBytes
	if !p.drain || len(v.content) < headBytes {
		v.content = append(v.content, b...)
	}
	return nil
}

// settle reads a volume's capacity from its content, as libvirt does.
func (p *memPool) settle(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.volumes[name]
	if !ok {
		return
	}
	if virtual, err := parseQCOW2(v.content, 0); err == nil && bytes.HasPrefix(v.content, []byte(qcow2Magic)) {
		v.CapacityBytes = virtual
	} else if v.Format == formatRaw {
		v.CapacityBytes = v.PhysicalBytes
	}
}

func (p *memPool) DeleteVolume(ctx context.Context, name string) error {
	if err := p.enter(ctx, "DeleteVolume", name); err != nil {
		return err
	}
	p.remove(name)
	return p.leave("DeleteVolume", name)
}

func (p *memPool) remove(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v, ok := p.volumes[name]; ok {
		p.freeBytes += v.PhysicalBytes
		delete(p.volumes, name)
	}
}

func (p *memPool) CheckSpace(ctx context.Context, needed int64) (int64, error) {
	if err := p.enter(ctx, "CheckSpace", ""); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, needed)
	if p.freeBytes < needed {
		return p.freeBytes, p.fail(instance.ReasonPoolFull, "check space",
			fmt.Errorf("pool default has %d bytes available, %d are needed", p.freeBytes, needed))
	}
	return p.freeBytes, nil
}

// names lists the volumes; for a test's assertions.
func (p *memPool) names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := []string{}
	for name := range p.volumes {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// writes lists the calls that change the pool, in order.
func (p *memPool) writes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, c := range p.calls {
		if !strings.HasPrefix(c, "Volume") && !strings.HasPrefix(c, "CheckSpace") {
			out = append(out, c)
		}
	}
	return out
}

func (p *memPool) callCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls)
}

func (p *memPool) setFree(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.freeBytes = bytes
}

func (p *memPool) content(tb testing.TB, name string) []byte {
	tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.volumes[name]
	if !ok {
		tb.Fatalf("no volume %s", name)
	}
	return v.content
}

// put adds a volume behind the cache's back.
func (p *memPool) put(v instance.Volume) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v.Path == "" {
		v.Path = poolDir + v.Name
	}
	p.volumes[v.Name] = &memVolume{Volume: v}
}
