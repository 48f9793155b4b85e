package image

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const (
	defaultStall     = 60 * time.Second
	defaultResumes   = 10
	defaultSeedSlots = 4
)

// Options are what a Cache is made of.
type Options struct {
	// Pool returns the storage pool of a configured host. Required.
	Pool func(host string) (Pool, bool)
	// Transport carries the downloads; nil is a transport of our own.
	Transport http.RoundTripper
	// Log, Tracer and Registerer are required.
	Log        *slog.Logger
	Tracer     trace.Tracer
	Registerer prometheus.Registerer
	// Stall is how long a source may bring no byte, and how far apart the looks
	// are that find a dead partial. 0 is 60 s.
	Stall time.Duration
	// Transfer bounds one download as a whole; 0 is no bound.
	Transfer time.Duration
	// Resumes bounds how often one download goes on after a cut; 0 is 10.
	Resumes int
	// SeedSlots bounds how many seeds are built at a time; 0 is 4.
	SeedSlots int
}

// Cache implements instance.Images. It owns every download and sweep that it
// starts; Close waits for them.
type Cache struct {
	poolOf   func(host string) (Pool, bool)
	source   *source
	log      *slog.Logger
	tracer   trace.Tracer
	metrics  *metrics
	stall    time.Duration
	transfer time.Duration
	seeds    chan struct{}
	// decoders admits downloads that decompress.
	decoders chan struct{}

	crew crew
	// removing admits one Remove at a time: two at once could each undo what
	// the other has just found.
	removing chan struct{}

	mu       sync.Mutex
	flights  map[key]*flight
	probes   map[string]*probe
	known    map[key]instance.Base
	failures map[key]error
	sweeps   map[string]*sweep
}

var _ instance.Images = (*Cache)(nil)

// New returns a Cache that has done nothing yet. The error names every option
// that is missing.
func New(o Options) (*Cache, error) {
	var missing []string
	for _, need := range []struct {
		name string
		is   bool
	}{
		{"Pool", o.Pool != nil}, {"Log", o.Log != nil}, {"Tracer", o.Tracer != nil}, {"Registerer", o.Registerer != nil},
	} {
		if !need.is {
			missing = append(missing, need.name)
		}
	}
	if len(missing) > 0 {
		return nil, errors.New("image: missing options: " + strings.Join(missing, ", "))
	}
	stall := positive(o.Stall, defaultStall)
	return &Cache{
		poolOf: o.Pool,
		source: &source{
			client: newClient(o.Transport, net.DefaultResolver), stall: stall, resumes: positive(o.Resumes, defaultResumes),
		},
		log: o.Log, tracer: o.Tracer, metrics: newMetrics(o.Registerer),
		stall: stall, transfer: max(o.Transfer, 0),
		seeds:    make(chan struct{}, positive(o.SeedSlots, defaultSeedSlots)),
		decoders: make(chan struct{}, maxDecoders),
		removing: make(chan struct{}, 1),
		flights:  map[key]*flight{}, probes: map[string]*probe{},
		known: map[key]instance.Base{}, failures: map[key]error{}, sweeps: map[string]*sweep{},
	}, nil
}

// positive returns v, or def when v is not above zero.
func positive[T int | time.Duration](v, def T) T {
	if v > 0 {
		return v
	}
	return def
}

// Close stops all downloads and sweeps, lets them remove their partials until
// ctx ends, and returns once no goroutine is left. Its error is that of ctx,
// when clean-up was cut short.
func (c *Cache) Close(ctx context.Context) error {
	return c.crew.close(ctx, instance.Errorf(instance.ReasonShuttingDown, "the service is shutting down"))
}

// pool finds the pool of a host.
func (c *Cache) pool(host string) (Pool, error) {
	if p, ok := c.poolOf(host); ok {
		return p, nil
	}
	return nil, &instance.Error{Reason: instance.ReasonHostNotConfigured, Op: "find pool", Host: host, Detail: "host is not configured"}
}

// errShuttingDown answers callers that come after Close.
func errShuttingDown(op, host string) error {
	return &instance.Error{Reason: instance.ReasonShuttingDown, Op: op, Host: host, Detail: "the service is shutting down"}
}

// remembered is what was last known to be ready: a hint, never the truth.
func (c *Cache) remembered(k key) (instance.Base, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.known[k]
	return b, ok
}

// remember keeps what the host has just said.
func (c *Cache) remember(k key, b instance.Base, ready bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !ready {
		delete(c.known, k)
		return
	}
	c.known[k] = b
	delete(c.failures, k)
}
