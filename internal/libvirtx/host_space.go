package libvirtx

import (
	"context"
	"sync"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// refreshEvery is how old the pool's figures may be before a check of the
// space has them refreshed.
const refreshEvery = 5 * time.Second

// poolInfo is a pool as StoragePoolGetInfo tells it.
type poolInfo struct {
	state          uint8
	capacityBytes  uint64
	availableBytes uint64
}

// spaceBook keeps what was granted since libvirt last looked at the pool,
// since its figures are cached. The zero value is ready.
type spaceBook struct {
	mu sync.Mutex
	// refreshed is when the last successful refresh began.
	refreshed time.Time
	// running is closed when the refresh that is under way ends; nil without one.
	running chan struct{}
	granted []grant
}

// grant is room that somebody was told there is.
type grant struct {
	at    time.Time
	bytes int64
}

// CheckSpace fails with PoolFull, naming pool, available and needed bytes, when
// less than neededBytes is free, and else counts them as granted until libvirt
// has looked at the pool again (C6).
func (h *Host) CheckSpace(ctx context.Context, neededBytes int64) (int64, error) {
	const op = "check space"
	if err := h.refreshAtTimes(ctx); err != nil {
		return 0, h.fail(op, "", err)
	}
	info, err := h.poolInfo(ctx)
	if err != nil {
		return 0, h.failVolume(ctx, op, "", err)
	}
	if !poolUsable(info.state) {
		return 0, h.fail(op, "", h.notActive(info.state))
	}
	available, ok := h.space.take(clampBytes(info.availableBytes), neededBytes)
	if !ok {
		return available, h.fail(op, "", h.full(available, neededBytes))
	}
	return available, nil
}

// take grants neededBytes of what is available less all that was granted
// before, or tells that they are not there. Nothing is granted to who needs nothing.
func (b *spaceBook) take(availableBytes, neededBytes int64) (leftBytes int64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.granted {
		availableBytes -= g.bytes
	}
	availableBytes = max(availableBytes, 0)
	if availableBytes < neededBytes {
		return availableBytes, false
	}
	if neededBytes > 0 {
		b.granted = append(b.granted, grant{at: time.Now(), bytes: neededBytes})
	}
	return availableBytes, true
}

// refreshAtTimes has the pool refreshed by one caller for all, unless that was
// done just now. A refusal (the pool has jobs) or failure is no error: the last
// figures less what was granted have to do. Only the end of ctx is.
func (h *Host) refreshAtTimes(ctx context.Context) error {
	b := &h.space
	b.mu.Lock()
	if time.Since(b.refreshed) < refreshEvery {
		b.mu.Unlock()
		return nil
	}
	if running := b.running; running != nil {
		b.mu.Unlock()
		select {
		case <-running:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	done := make(chan struct{})
	b.running = done
	b.mu.Unlock()

	defer func() {
		b.mu.Lock()
		b.running = nil
		b.mu.Unlock()
		close(done)
	}()
	h.refreshBestEffort(ctx)
	return ctx.Err()
}

// refreshBestEffort refreshes the pool if it can be done at once.
func (h *Host) refreshBestEffort(ctx context.Context) {
	if err := h.refreshOnce(ctx); err != nil {
		h.log.Log(ctx, instance.LevelDetail, "pool not refreshed", "pool", h.opts.Pool, "error", err)
	}
}

// refresh refreshes the pool, waiting for its jobs to end.
func (h *Host) refresh(ctx context.Context) error {
	return whileBusy(ctx, func() error { return h.refreshOnce(ctx) }, func() error { return nil })
}

// refreshOnce has libvirt look at the pool; what was granted before it began is
// in the figures from then on.
func (h *Host) refreshOnce(ctx context.Context) error {
	began := time.Now()
	err := h.withPool(ctx, func(pool libvirt.StoragePool) error { return h.be.StoragePoolRefresh(ctx, pool) })
	if err == nil {
		h.space.settle(began)
	}
	return err
}

// settle drops what was granted before began.
func (b *spaceBook) settle(began time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if began.Before(b.refreshed) {
		return
	}
	b.refreshed = began
	kept := b.granted[:0]
	for _, g := range b.granted {
		if g.at.After(began) {
			kept = append(kept, g)
		}
	}
	b.granted = kept
}

func (h *Host) poolInfo(ctx context.Context) (info poolInfo, err error) {
	err = h.withPool(ctx, func(pool libvirt.StoragePool) (err error) {
		info.state, info.capacityBytes, _, info.availableBytes, err = h.be.StoragePoolGetInfo(ctx, pool)
		return err
	})
	return info, err
}

// poolStopped is PoolNotActive when the pool is known not to be in use, else
// nil: what cannot be known is not held against the pool.
func (h *Host) poolStopped(ctx context.Context) error {
	if info, err := h.poolInfo(ctx); err == nil && !poolUsable(info.state) {
		return h.notActive(info.state)
	}
	return nil
}

// lacks is PoolFull when the pool is known to have less than neededBytes, else nil.
func (h *Host) lacks(ctx context.Context, neededBytes int64) error {
	if info, err := h.poolInfo(ctx); err == nil && clampBytes(info.availableBytes) < neededBytes {
		return h.full(clampBytes(info.availableBytes), neededBytes)
	}
	return nil
}

func (h *Host) notActive(state uint8) error {
	return verdictf(instance.ReasonPoolNotActive, "pool %s is %s", h.opts.Pool, poolStateWord(state))
}

func (h *Host) full(availableBytes, neededBytes int64) error {
	return verdictf(instance.ReasonPoolFull, "pool %s has %d bytes available, %d are needed",
		h.opts.Pool, availableBytes, neededBytes)
}
