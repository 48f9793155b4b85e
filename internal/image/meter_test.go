package image

import (
	"io"
	"net/http"
	"sync"
)

// meter watches how a body is read.
type meter struct {
	// stored says how much the pool has.
	stored func() int64

	mu      sync.Mutex
	read    int64
	largest int
	ahead   int64
}

// meteredWire puts a meter on each body.
type meteredWire struct {
	wire
	meter *meter
}

func (t meteredWire) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.wire.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	t.meter.mu.Lock()
	t.meter.read = 0
	t.meter.mu.Unlock()
	resp.Body = &meteredBody{ReadCloser: resp.Body, meter: t.meter}
	return resp, nil
}

type meteredBody struct {
	io.ReadCloser
	meter *meter
}

func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	stored := b.meter.stored()
	b.meter.mu.Lock()
	defer b.meter.mu.Unlock()
	b.meter.largest = max(b.meter.largest, len(p))
	b.meter.read += int64(n)
	b.meter.ahead = max(b.meter.ahead, b.meter.read-stored)
	return n, err
}
