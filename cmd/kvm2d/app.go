package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
	httpapi "gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/http"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/image"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/libvirtx"
)

// appOptions are what a daemon is made of.
type appOptions struct {
	Config   *config.Config
	Backends backends
	// File is where Config came from, to be read again at run time.
	File configFile
	// InsecureNoAuth lets everybody in, on every address.
	InsecureNoAuth bool
	Log            *slog.Logger
	// Level changes how much Log writes.
	Level *levelSwitch
	// Ready, when set, is called once with the addresses that are listened on.
	Ready func(api, admin net.Addr)
}

// backends are the world outside: real, or simulated.
type backends struct {
	// connector returns the way to a host's libvirt; it dials nothing.
	connector func(config.Host) (libvirtx.Connector, error)
	// downloads carries the downloads of images; nil is the network.
	downloads http.RoundTripper
}

// run starts a daemon and serves until ctx ends or a listener fails, then stops
// it within the configured grace. It returns once nothing of it is left.
func run(ctx context.Context, o appOptions) error {
	life := &lifecycle{log: o.Log}
	a := &app{appOptions: o, life: life, failed: make(chan error, 2)}
	err := a.start(ctx)
	if err == nil {
		o.Log.InfoContext(ctx, "serving", "listen", a.api.String(), "admin_listen", a.admin.String(), "version", a.build.Version)
		if o.Ready != nil {
			o.Ready(a.api, a.admin)
		}
		select {
		case <-ctx.Done():
			o.Log.InfoContext(ctx, "stopping", "grace", o.Config.Timeouts.Drain.String())
		case err = <-a.failed:
		}
	}
	if stopErr := life.stop(ctx, o.Config.Timeouts.Drain); stopErr != nil {
		o.Log.WarnContext(ctx, "not everything stopped in order", "error", stopErr)
	}
	o.Log.InfoContext(ctx, "stopped")
	return err
}

// app is one daemon. Its parts are registered with life as they come to be.
type app struct {
	appOptions
	life   *lifecycle
	build  build
	failed chan error

	registry  *prometheus.Registry
	traces    trace.TracerProvider
	tracer    trace.Tracer
	readiness httpapi.Readiness
	auth      []httpapi.Authenticator

	api, admin net.Addr
}

// start brings everything up. What it started before a failure is on the
// lifecycle's stack.
func (a *app) start(ctx context.Context) error {
	a.build = readBuild()
	a.registry = prometheus.NewRegistry()
	a.registry.MustRegister(buildMetric(a.build), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var err error
	if a.auth, err = authenticators(a.Config.Server, a.InsecureNoAuth, a.Log, a.registry); err != nil {
		return err
	}
	// Both addresses are taken first: a second daemon on them fails at once.
	apiListener, err := a.listen(ctx, "API", a.Config.Server.Listen)
	if err != nil {
		return err
	}
	adminListener, err := a.listen(ctx, "admin", a.Config.Server.AdminListen)
	if err != nil {
		return err
	}
	a.startAdmin(ctx, adminListener)
	if a.traces, err = startTelemetry(ctx, a.life, a.build); err != nil {
		return err
	}
	a.tracer = a.traces.Tracer("gitea.home.hrajfrisbee.cz/kacerr/kvm2d", trace.WithInstrumentationVersion(a.build.Version))
	hosts, err := a.startHosts(ctx)
	if err != nil {
		return err
	}
	service, err := a.startService(hosts)
	if err != nil {
		return err
	}
	newReloader(a.File, hosts, service.SetCatalog, a.Log, a.registry).start(ctx, a.life)
	prober := newProber(service, a.Config.ProbeInterval, a.Log, a.registry)
	prober.start(ctx, a.life)
	return a.startAPI(ctx, service, prober, apiListener)
}

// listen takes an address.
func (a *app) listen(ctx context.Context, name, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for the %s: %w", name, err)
	}
	a.life.onStop(name+" listener", func(context.Context) error {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	return l, nil
}

// startHosts makes the configured hosts and their links; nothing is dialled.
func (a *app) startHosts(ctx context.Context) (*fleet, error) {
	// What all links share.
	metrics, buffers := libvirtx.NewMetrics(a.registry), libvirtx.NewBuffers(int64(a.Config.Limits.TransferBufferMiB)<<20)
	hosts := newFleet(ctx, func(h config.Host) (*libvirtx.Link, error) { return a.newLink(h, metrics, buffers) }, a.newHost)
	a.life.onStop("hosts", func(context.Context) error { return hosts.Close() })
	return hosts, hosts.apply(a.Config.KVM2.Hosts)
}

func (a *app) newLink(h config.Host, metrics *libvirtx.Metrics, buffers *libvirtx.Buffers) (*libvirtx.Link, error) {
	connector, err := a.Backends.connector(h)
	if err != nil {
		return nil, err
	}
	return libvirtx.NewLink(libvirtx.LinkOptions{
		Host: h.Name, Connector: connector, Limits: limitsOf(a.Config.Timeouts), Buffers: buffers,
		Log: a.Log, Tracer: a.tracer, Metrics: metrics,
	})
}

func (a *app) newHost(h config.Host, link *libvirtx.Link) (*libvirtx.Host, error) {
	return libvirtx.NewHost(libvirtx.HostOptions{
		Name: h.Name, Link: link, Owner: a.Config.KVM2.Owner, Pool: h.Pool, Bridge: h.Bridge, Network: h.Network,
		DomainType: h.DomainType, Emulator: h.Emulator, Maintenance: h.Maintenance, User: h.Endpoint().User, Log: a.Log,
	})
}

func limitsOf(t config.Timeouts) libvirtx.Limits {
	return libvirtx.Limits{
		Dial: t.Dial, Call: t.Call, Start: t.Start, Agent: t.Agent, Stall: t.Stall, Transfer: t.Transfer,
	}
}

// startService makes the image cache and the service on top of the hosts.
func (a *app) startService(hosts *fleet) (*instance.Service, error) {
	cache, err := image.New(image.Options{
		Pool: func(name string) (image.Pool, bool) {
			h, ok := hosts.Host(name)
			return h, ok
		},
		Transport: a.Backends.downloads, Log: a.Log, Tracer: a.tracer, Registerer: a.registry,
		Stall: a.Config.Timeouts.Stall, Transfer: a.Config.Timeouts.Transfer,
	})
	if err != nil {
		return nil, fmt.Errorf("set up the image cache: %w", err)
	}
	a.life.onStop("image cache", hurried(cache.Close))
	unconfigured := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kvm2d_unconfigured_host_deletes_total",
		Help: "Deletes of instances on hosts that are not configured: they succeed and remove nothing.",
	})
	a.registry.MustRegister(unconfigured)
	service, err := instance.New(instance.Options{
		UnconfiguredDelete: unconfigured.Inc,
		CreateStep:         createSteps(a.registry),
		Hosts:              hosts, Images: cache, Catalog: catalogOf(a.Config.KVM2), Owner: a.Config.KVM2.Owner,
		CreateWait: a.Config.Limits.CreateWait, CreatesPerHost: a.Config.Limits.CreatesPerHost, Log: a.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("set up the service: %w", err)
	}
	a.life.onStop("service", service.Close)
	return service, nil
}
