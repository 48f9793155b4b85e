package libvirtx

import "time"

// Limits bound what the transport waits for. The zero value of a field is not
// "no limit" but the default, Transfer excepted.
type Limits struct {
	// Dial bounds one attempt to connect: TCP, SSH handshake, libvirt's open.
	Dial time.Duration
	// Call bounds an ordinary call, from when it is sent.
	Call time.Duration
	// Start bounds DomainCreate, which waits for the emulator.
	Start time.Duration
	// Agent bounds how long a caller waits for a guest's agent, the wait for
	// its turn included.
	Agent time.Duration
	// Stall ends a transfer that made no progress for so long.
	Stall time.Duration
	// Transfer bounds a whole transfer; 0 leaves it to Stall.
	Transfer time.Duration
}

// DefaultLimits are the limits of a configuration that names none.
func DefaultLimits() Limits {
	return Limits{
		Dial:     10 * time.Second,
		Call:     30 * time.Second,
		Start:    90 * time.Second,
		Agent:    2 * time.Second,
		Stall:    60 * time.Second,
		Transfer: 20 * time.Minute,
	}
}

// withDefaults fills what is zero. Transfer keeps its zero: it means none.
func (l Limits) withDefaults() Limits {
	def := DefaultLimits()
	for _, f := range []struct{ field, def *time.Duration }{
		{&l.Dial, &def.Dial},
		{&l.Call, &def.Call},
		{&l.Start, &def.Start},
		{&l.Agent, &def.Agent},
		{&l.Stall, &def.Stall},
	} {
		if *f.field <= 0 {
			*f.field = *f.def
		}
	}
	return l
}
