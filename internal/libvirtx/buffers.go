package libvirtx

import (
	"context"
	"fmt"
)

// transferBytes is what one transfer reads ahead.
const transferBytes = 2 * chunkBytes

// Buffers bound the memory that the large transfers of a process take together,
// whatever number of links they go over: who finds none left waits. A nil
// *Buffers bounds nothing.
type Buffers struct{ places chan struct{} }

// NewBuffers returns buffers of so many bytes in all, enough for one transfer at least.
func NewBuffers(bytes int64) *Buffers {
	return &Buffers{places: make(chan struct{}, max(1, bytes/transferBytes))}
}

// take waits for the buffers of one transfer and returns what gives them back. It
// fails with the cause of ctx, or with errClosed once closing is closed.
func (b *Buffers) take(ctx context.Context, closing <-chan struct{}) (func(), error) {
	if b == nil {
		return func() {}, nil
	}
	select {
	case b.places <- struct{}{}:
		return func() { <-b.places }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for buffers of other transfers: %w", context.Cause(ctx))
	case <-closing:
		return nil, errClosed
	}
}
