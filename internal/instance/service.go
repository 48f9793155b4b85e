package instance

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options are what a Service is made of. Every field without a default is required.
type Options struct {
	Hosts  Hosts
	Images Images
	// Catalog is what callers may ask for; the zero Catalog offers nothing.
	Catalog Catalog
	// Owner is written into marks and volume names, a DNS-1123 label.
	Owner string
	// CreateWait bounds one create's whole work, however many callers wait for it.
	CreateWait time.Duration
	// CreatesPerHost bounds the creates that work on one host at a time.
	CreatesPerHost int
	Log            *slog.Logger
	// UnconfiguredDelete, when set, is called for each Delete that succeeds
	// because its host is not configured: a metric's hook.
	UnconfiguredDelete func()
	// CreateStep, when set, is called at the end of each step of each create on a
	// host: a metric's hook.
	CreateStep func(host string, step CreateStep, took time.Duration, err error)
}

// Service serves the contract on the configured hosts. All methods are safe for
// concurrent use; what goes on after a caller left belongs to the Service and
// is waited for by Close.
type Service struct {
	hosts              Hosts
	images             Images
	catalog            atomic.Pointer[Catalog]
	owner              string
	createWait         time.Duration
	log                *slog.Logger
	unconfiguredDelete func()
	createStep         func(host string, step CreateStep, took time.Duration, err error)

	names keyLock
	slots slots

	// work counts the goroutines of creates and checks.
	work sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	creates  map[ID]*creation
	perHost  map[string]int
	checking *checkRun
}

// New makes a Service. It names every missing or malformed option at once and
// does no I/O.
func New(o Options) (*Service, error) {
	var faults []string
	need := func(ok bool, what string) {
		if !ok {
			faults = append(faults, what)
		}
	}
	need(o.Hosts != nil, "Hosts is missing")
	need(o.Images != nil, "Images is missing")
	need(ValidLabel(o.Owner), "Owner is missing or not a DNS-1123 label")
	need(o.CreateWait > 0, "CreateWait is missing")
	need(o.CreatesPerHost > 0, "CreatesPerHost is missing")
	need(o.Log != nil, "Log is missing")
	if len(faults) > 0 {
		return nil, fmt.Errorf("instance service options: %s", strings.Join(faults, "; "))
	}
	if o.UnconfiguredDelete == nil {
		o.UnconfiguredDelete = func() {}
	}
	if o.CreateStep == nil {
		o.CreateStep = func(string, CreateStep, time.Duration, error) {}
	}
	s := &Service{
		hosts:              o.Hosts,
		images:             o.Images,
		owner:              o.Owner,
		createWait:         o.CreateWait,
		log:                o.Log,
		unconfiguredDelete: o.UnconfiguredDelete,
		createStep:         o.CreateStep,
		slots:              slots{perHost: o.CreatesPerHost},
		creates:            map[ID]*creation{},
		perHost:            map[string]int{},
	}
	s.SetCatalog(o.Catalog)
	return s, nil
}

// SetCatalog replaces what callers may ask for. Work under way keeps what it
// started with. The maps must not be changed afterwards.
func (s *Service) SetCatalog(c Catalog) { s.catalog.Store(&c) }

// Placements returns what callers may name, by name.
func (s *Service) Placements() []Placement {
	return slices.SortedFunc(maps.Values(s.catalog.Load().Placements), func(a, b Placement) int {
		return strings.Compare(a.Name, b.Name)
	})
}

// Close stops accepting work that outlives its caller, waits for what is under
// way until ctx ends, then cancels that and waits again: for as long as hosts
// and images take to notice. It returns ctx's error when it had to cancel.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()

	idle := make(chan struct{})
	go func() {
		s.work.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	s.cancelAll()
	<-idle
	return ctx.Err()
}

func (s *Service) cancelAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.creates {
		c.cancel(shuttingDown("create instance", c.id))
	}
	if s.checking != nil {
		s.checking.cancel()
	}
}

func shuttingDown(op string, id ID) *Error {
	return &Error{
		Reason: ReasonShuttingDown, Op: op, Instance: id.Name, Host: id.Host,
		Detail: "the service is shutting down; a repeat takes up what was begun",
	}
}

// host returns the configured host of that name or HostNotConfigured.
func (s *Service) host(op string, id ID) (Host, error) {
	if h, ok := s.hosts.Host(id.Host); ok {
		return h, nil
	}
	return nil, &Error{
		Reason: ReasonHostNotConfigured, Op: op, Instance: id.Name, Host: id.Host,
		Detail: "no such host is configured; known are " + s.hostNames(),
	}
}

func (s *Service) hostNames() string {
	var names []string
	for _, h := range s.hosts.All() {
		names = append(names, h.Name())
	}
	return listed(names)
}

// hostsNamed returns the one host of that name, or all of them for "".
func (s *Service) hostsNamed(op, name string) ([]Host, error) {
	if name == "" {
		return s.hosts.All(), nil
	}
	h, err := s.host(op, ID{Host: name})
	if err != nil {
		return nil, err
	}
	return []Host{h}, nil
}

// ours reports whether m carries our owner's mark. A name that is no label can
// not be one that we gave.
func (s *Service) ours(m Machine) bool {
	return m.Mark != nil && m.Mark.Owner == s.owner && ValidLabel(m.Name)
}

// listed joins names for a message.
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
