package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	httpapi "gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/http"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// startAdmin serves livez, readyz, metrics and loglevel; not ready yet.
func (a *app) startAdmin(ctx context.Context, l net.Listener) {
	metrics := promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{Registry: a.registry})
	handler := httpapi.AdminHandler(httpapi.AdminOptions{
		Readiness: &a.readiness, Metrics: metrics, LogLevel: a.Level, Pprof: a.Config.Server.Pprof,
	})
	a.admin = l.Addr()
	a.serve(ctx, "admin server", l, handler, nil)
}

// startAPI serves the API, and what the prober saw to people, and turns ready.
func (a *app) startAPI(ctx context.Context, service httpapi.Service, prober *prober, l net.Listener) error {
	limits := a.Config.Limits
	server, err := httpapi.New(httpapi.Options{
		Service: service, Auth: a.auth, Log: a.Log, Registry: a.registry, Tracer: a.traces,
		Overview:    func() httpapi.Overview { return httpapi.Overview(prober.Last()) },
		Build:       httpapi.Build{Version: a.build.Version, Commit: a.build.Revision, BuiltAt: a.build.Time},
		MaxRequests: limits.Requests, MaxBodyBytes: int64(limits.RequestBodyMiB) << 20, MaxWait: limits.CreateWait,
	})
	if err != nil {
		return fmt.Errorf("set up the API: %w", err)
	}
	a.api = l.Addr()
	var tls *httpapi.TLSOptions
	if t := a.Config.Server.TLS; t != nil {
		tls = &httpapi.TLSOptions{CertFile: t.CertFile, KeyFile: t.KeyFile, Log: a.Log, Registry: a.registry}
		if c := a.Config.Server.Auth.ClientCert; c != nil {
			tls.ClientCAFile = c.CAFile
		}
	}
	if err := a.serveTLS(ctx, "API", l, server.Handler(), tls); err != nil {
		return err
	}
	a.readiness.Serving()
	a.life.onStop("readiness", func(context.Context) error {
		a.readiness.Draining()
		return nil
	})
	return nil
}

// serveTLS is serve, over TLS when files are given.
func (a *app) serveTLS(ctx context.Context, name string, l net.Listener, h http.Handler, files *httpapi.TLSOptions) error {
	if files == nil {
		a.serve(ctx, name, l, h, nil)
		return nil
	}
	config, err := httpapi.NewTLSConfig(*files)
	if err != nil {
		return fmt.Errorf("set up the API: %w", err)
	}
	a.serve(ctx, name, l, h, func(s *http.Server) { s.TLSConfig = config })
	return nil
}

// serve serves h on l until its clean-up, which first lets requests end by
// themselves and then ends them. Requests outlive ctx: it is the clean-up's say.
func (a *app) serve(ctx context.Context, name string, l net.Listener, h http.Handler, adjust func(*http.Server)) {
	base, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	server := httpapi.NewListenerServer(base, h, a.Log)
	run := func() error { return server.Serve(l) }
	if adjust != nil {
		adjust(server)
		run = func() error { return server.ServeTLS(l, "", "") }
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := run(); !errors.Is(err, http.ErrServerClosed) {
			a.failed <- fmt.Errorf("%s: %w", name, err)
		}
	})
	a.life.onStop(name, func(ctx context.Context) error {
		defer wg.Wait()
		defer cut(nil)
		return drain(ctx, server, cut)
	})
}

// drain waits for the requests in progress until ctx ends, then ends them with
// a cause that their answers tell.
func drain(ctx context.Context, server *http.Server, cut context.CancelCauseFunc) error {
	if server.Shutdown(ctx) == nil {
		return nil
	}
	cut(instance.Errorf(instance.ReasonShuttingDown, "the service is shutting down"))
	if err := hurried(server.Shutdown)(ctx); err != nil {
		return errors.Join(fmt.Errorf("requests do not end: %w", err), server.Close())
	}
	return errors.New("requests were cut short")
}
