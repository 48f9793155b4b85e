package libvirtx

import (
	"context"
	"math/rand/v2"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
)

// How long and how often a call is repeated that libvirt refuses while the
// pool has asynchronous jobs.
const (
	jobsPatience  = 35 * time.Second
	jobsFirstWait = 50 * time.Millisecond
	jobsMaxWait   = 2 * time.Second
)

// whileBusy repeats fn while it fails with libvirt's internal error (1), the
// number under which a pool says that it has asynchronous jobs, unless giveUp
// says why not. Other causes hide under that number: they end as they are when the
// patience does.
func whileBusy(ctx context.Context, fn func() error, giveUp func() error) error {
	deadline := time.Now().Add(jobsPatience)
	for wait := jobsFirstWait; ; wait = min(2*wait, jobsMaxWait) {
		err := fn()
		if !answered(err, libvirt.ErrInternalError) {
			return err
		}
		if why := giveUp(); why != nil {
			return why
		}
		if time.Now().After(deadline) {
			return err
		}
		// Jitter keeps those who were refused together from coming back together.
		if waitErr := pause(ctx, wait/2+rand.N(wait)); waitErr != nil {
			return waitErr
		}
	}
}

// pause waits for d or for the end of ctx, whose error it returns.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
