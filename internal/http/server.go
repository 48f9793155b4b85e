package http

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// Options are what a Server is made of. Service, Auth, Log and Registry are required.
type Options struct {
	Service Service
	// Auth are asked in turn who calls. Without authentication say so: Anonymous.
	Auth []Authenticator
	Log  *slog.Logger
	// Registry takes the request metrics.
	Registry prometheus.Registerer
	// Tracer makes the server spans; none when nil.
	Tracer trace.TracerProvider
	Build  Build
	// Overview is what the status page shows; it must not ask a host. Nothing is
	// known when nil.
	Overview func() Overview
	// MaxRequests bounds requests under way; 512 when 0.
	MaxRequests int
	// MaxRequestsPerCaller bounds those of one named caller; three quarters of
	// MaxRequests when 0.
	MaxRequestsPerCaller int
	// MaxBodyBytes bounds a request's body; 1 MiB when 0.
	MaxBodyBytes int64
	// MaxWait bounds what a caller may ask for with Prefer: wait=N; 15 min when 0.
	MaxWait time.Duration
	// BodyTimeout bounds how long a body may take to arrive; 30 s when 0.
	BodyTimeout time.Duration
}

func (o *Options) check() error {
	var errs []error
	missing := func(name string, absent bool) {
		if absent {
			errs = append(errs, fmt.Errorf("http: option %s is missing", name))
		}
	}
	missing("Service", o.Service == nil)
	missing("Auth", len(o.Auth) == 0)
	missing("Log", o.Log == nil)
	missing("Registry", o.Registry == nil)
	return errors.Join(errs...)
}

func (o *Options) fill() {
	if o.Tracer == nil {
		o.Tracer = tracenoop.NewTracerProvider()
	}
	if o.Overview == nil {
		o.Overview = func() Overview { return Overview{} }
	}
	o.MaxRequests = orDefault(o.MaxRequests, 512)
	o.MaxRequestsPerCaller = orDefault(o.MaxRequestsPerCaller, max(1, o.MaxRequests-o.MaxRequests/4))
	o.MaxBodyBytes = orDefault(o.MaxBodyBytes, 1<<20)
	o.MaxWait = orDefault(o.MaxWait, 15*time.Minute)
	o.BodyTimeout = orDefault(o.BodyTimeout, 30*time.Second)
}

func orDefault[T int | int64 | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// Server is the API as a handler; it owns no goroutine and no listener.
type Server struct {
	handler http.Handler
}

// New builds the API. It names every missing option at once and does no I/O.
func New(o Options) (*Server, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.fill()
	v, err := newValidator(bodies{maxBytes: o.MaxBodyBytes, timeout: o.BodyTimeout})
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Registry)
	if err != nil {
		return nil, err
	}
	r := newRouter(o, v, m)
	routeContract(r, &handlers{service: o.Service, build: o.Build, maxWait: o.MaxWait}, v)
	if err := routePages(r, o); err != nil {
		return nil, err
	}
	return &Server{handler: r}, nil
}

// Handler returns the API.
func (s *Server) Handler() http.Handler { return s.handler }

// NewListenerServer returns the net/http server for a handler of this package,
// with the limits that handlers cannot set themselves. Neither reads nor writes
// have a whole-request limit: a create blocks, and the handlers put their own
// on bodies and answers. Requests inherit base: end it, with the reason as its
// cause, to cut short what a drain did not finish. net/http's own complaints go
// to log at Debug.
func NewListenerServer(base context.Context, h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return base },
		// OPTIONS * is no path of ours either; net/http's own answer would be a bare 200.
		DisableGeneralOptionsHandler: true,
	}
}
