package sim

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
)

// Call is one call as it reached the host.
type Call struct {
	// N counts the host's calls from 1.
	N int
	// Method is the seam method's name, or Connect.
	Method string
	// Object is the name of the domain, volume, pool or network acted on, where
	// one is known before the call is carried out.
	Object string
	// Conn is the number of the connection, from 1; 0 for Connect.
	Conn int
}

// Fault makes calls fail.
type Fault struct {
	// Method restricts it to one method ("" is any).
	Method string
	// Object restricts it to calls on that name ("" is any).
	Object string
	// Skip is how many calls that match pass before it strikes.
	Skip int
	// Times is how often it strikes: 0 means once, negative until removed.
	Times int
	// Err is what the caller gets.
	Err error
	// After lets the call take effect first: its reply is what is lost.
	After bool
	// Drop ends the connection; Err may then be nil.
	Drop bool
	// AfterBytes, of an upload, is how much is written before it fails.
	AfterBytes uint64
}

// faults is what stands between a caller and the host's state.
type faults struct {
	mu      sync.Mutex
	latency time.Duration
	slow    map[string]time.Duration
	total   int
	counts  map[string]int
	active  []*Fault
	stalls  map[string]chan struct{}
	hook    func(Call) error
}

// Inject adds a fault and returns what removes it.
func (h *Host) Inject(f Fault) (remove func()) {
	if f.Times == 0 {
		f.Times = 1
	}
	p := &f
	h.faults.mu.Lock()
	defer h.faults.mu.Unlock()
	h.faults.active = append(h.faults.active, p)
	return func() {
		h.faults.mu.Lock()
		defer h.faults.mu.Unlock()
		h.faults.active = slices.DeleteFunc(h.faults.active, func(q *Fault) bool { return p == q })
	}
}

// FailCall fails the n-th call from now (1 is the next one) without effect.
func (h *Host) FailCall(n int, err error) { h.Inject(Fault{Skip: n - 1, Err: err}) }

// LoseReply lets the n-th call from now take effect and loses its reply with
// the connection.
func (h *Host) LoseReply(n int) { h.Inject(Fault{Skip: n - 1, After: true, Drop: true}) }

// FailMethod fails the next calls of a method, times of them, without effect.
func (h *Host) FailMethod(method string, err error, times int) {
	h.Inject(Fault{Method: method, Err: err, Times: times})
}

// ClearFaults removes every fault and the hook. Stalls have their own release.
func (h *Host) ClearFaults() {
	h.faults.mu.Lock()
	defer h.faults.mu.Unlock()
	h.faults.active, h.faults.hook = nil, nil
}

// Stall makes calls of a method ("" is any) block, whatever their context
// says, until release is called or their connection is closed. Release may be
// called more than once.
func (h *Host) Stall(method string) (release func()) {
	gate := make(chan struct{})
	h.faults.mu.Lock()
	defer h.faults.mu.Unlock()
	if h.faults.stalls == nil {
		h.faults.stalls = map[string]chan struct{}{}
	}
	if old := h.faults.stalls[method]; old != nil {
		close(old)
	}
	h.faults.stalls[method] = gate
	return func() {
		h.faults.mu.Lock()
		defer h.faults.mu.Unlock()
		if h.faults.stalls[method] == gate {
			delete(h.faults.stalls, method)
			close(gate)
		}
	}
}

// Slow makes every call take d.
func (h *Host) Slow(d time.Duration) {
	h.faults.mu.Lock()
	defer h.faults.mu.Unlock()
	h.faults.latency = d
}

// SlowMethod makes calls of one method take d; 0 ends that.
func (h *Host) SlowMethod(method string, d time.Duration) {
	h.faults.mu.Lock()
	defer h.faults.mu.Unlock()
	if h.faults.slow == nil {
		h.faults.slow = map[string]time.Duration{}
	}
	h.faults.slow[method] = d
}

// OnCall has every call told to hook before it takes effect, with no lock
// held: a hook may call the host itself. An error of it fails the call. The
// latest hook counts; nil removes it.
func (h *Host) OnCall(hook func(Call) error) {
	h.faults.mu.Lock()
	defer h.faults.mu.Unlock()
	h.faults.hook = hook
}

// Calls counts the calls of a method ("" is all, Connect included).
func (h *Host) Calls(method string) int {
	h.faults.mu.Lock()
	defer h.faults.mu.Unlock()
	if method == "" {
		return h.faults.total
	}
	return h.faults.counts[method]
}

// CallCounts returns the count of each method that was called.
func (h *Host) CallCounts() map[string]int {
	h.faults.mu.Lock()
	defer h.faults.mu.Unlock()
	return maps.Clone(h.faults.counts)
}

// ResetCalls sets all counts to 0.
func (h *Host) ResetCalls() {
	h.faults.mu.Lock()
	defer h.faults.mu.Unlock()
	h.faults.total, h.faults.counts = 0, nil
}

// visit is a call that passed the gate's entrance.
type visit struct {
	conn  *conn
	fault *Fault
}

// enter is the one way in: it counts, runs the hook, waits, and fails what is
// to fail before it takes effect. c is nil for Connect, which alone honours ctx
// while it waits.
func (h *Host) enter(ctx context.Context, c *conn, method, object string) (visit, error) {
	call := Call{Method: method, Object: object}
	if c != nil {
		if err := c.alive(); err != nil {
			return visit{}, err
		}
		call.Conn = c.number
	}
	if err := ctx.Err(); err != nil {
		return visit{}, err
	}
	fault, stalls, delay, hook := h.faults.admit(&call)
	v := visit{conn: c, fault: fault}
	if hook != nil {
		if err := hook(call); err != nil {
			return v, err
		}
	}
	if err := v.wait(ctx, stalls, delay); err != nil {
		return v, err
	}
	if fault != nil && !fault.After && fault.AfterBytes == 0 {
		return v, v.fail()
	}
	return v, nil
}

// admit counts the call and says what awaits it.
func (f *faults) admit(call *Call) (*Fault, []chan struct{}, time.Duration, func(Call) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.total++
	if f.counts == nil {
		f.counts = map[string]int{}
	}
	f.counts[call.Method]++
	call.N = f.total
	var stalls []chan struct{}
	for _, key := range []string{"", call.Method} {
		if s := f.stalls[key]; s != nil {
			stalls = append(stalls, s)
		}
	}
	return f.strike(call), stalls, max(f.latency, f.slow[call.Method]), f.hook
}

// strike returns a copy of the first fault that strikes this call. Every fault
// that matches counts the call, so that two faults of one method keep their
// own places.
func (f *faults) strike(call *Call) *Fault {
	var hit *Fault
	for _, p := range f.active {
		if p.Times == 0 || (p.Method != "" && p.Method != call.Method) || (p.Object != "" && p.Object != call.Object) {
			continue
		}
		if p.Skip > 0 {
			p.Skip--
			continue
		}
		if hit != nil {
			continue
		}
		if p.Times > 0 {
			p.Times--
		}
		c := *p
		hit = &c
	}
	f.active = slices.DeleteFunc(f.active, func(p *Fault) bool { return p.Times == 0 })
	return hit
}

// wait blocks for stalls and latency, or until the connection is gone.
func (v visit) wait(ctx context.Context, stalls []chan struct{}, delay time.Duration) error {
	gone, leave := (<-chan struct{})(nil), (<-chan struct{})(nil)
	if v.conn != nil {
		gone = v.conn.done
	} else {
		leave = ctx.Done()
	}
	for _, s := range stalls {
		select {
		case <-s:
		case <-gone:
			return libvirt.ErrInterrupted
		case <-leave:
			return ctx.Err()
		}
	}
	if delay <= 0 {
		return nil
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-gone:
		return libvirt.ErrInterrupted
	case <-leave:
		return ctx.Err()
	}
}

// leave is the one way out, with the call's own outcome.
func (v visit) leave(err error) error {
	if v.fault != nil && v.fault.After {
		return v.fail()
	}
	if err == nil && v.conn != nil && v.conn.alive() != nil {
		return libvirt.ErrInterrupted
	}
	return err
}

func (v visit) fail() error {
	if v.fault.Drop && v.conn != nil {
		_ = v.conn.Close()
	}
	if v.fault.Err != nil {
		return v.fault.Err
	}
	return libvirt.ErrInterrupted
}
