package http

import (
	"net/http"
	"net/http/pprof"
	"sync/atomic"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// Readiness is what /readyz tells. It says nothing of hosts: a dead hypervisor
// must not take the service out of rotation. The zero value is not ready.
type Readiness struct {
	serving  atomic.Bool
	draining atomic.Bool
}

// Serving notes that the configuration is loaded and the API listener is up.
func (s *Readiness) Serving() { s.serving.Store(true) }

// Draining notes that the service is about to stop; there is no way back.
func (s *Readiness) Draining() { s.draining.Store(true) }

func (s *Readiness) check() error {
	switch {
	case s.draining.Load():
		return instance.Errorf(instance.ReasonShuttingDown, "the service is shutting down")
	case !s.serving.Load():
		return instance.Errorf(instance.ReasonOverloaded, "the service is starting")
	default:
		return nil
	}
}

// AdminOptions are what the admin listener serves. All but Pprof are required.
type AdminOptions struct {
	Readiness *Readiness
	// Metrics serves /metrics.
	Metrics http.Handler
	// LogLevel is shown, and changed from this machine.
	LogLevel LogLevel
	// Pprof serves /debug/pprof too.
	Pprof bool
}

// AdminHandler returns the admin listener's routes: /livez, /readyz, /metrics,
// /loglevel and, when that is on, /debug/pprof. It has no authentication.
func AdminHandler(o AdminOptions) http.Handler {
	r := chi.NewRouter()
	r.Use(identified, fixedHeaders, middleware.GetHead)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		fail(w, r, instance.Errorf(instance.ReasonRouteNotFound, "this listener has no such path"))
	})
	r.MethodNotAllowed(methodNotAllowed(r))
	r.Get("/livez", func(w http.ResponseWriter, r *http.Request) {
		respondBytes(w, r, http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
	})
	r.Get("/readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := o.Readiness.check(); err != nil {
			fail(w, r, err)
			return
		}
		respondBytes(w, r, http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
	})
	r.Method(http.MethodGet, "/metrics", o.Metrics)
	level := logLevelHandler{o.LogLevel}
	r.Get("/loglevel", level.get)
	r.Put("/loglevel", level.put)
	if o.Pprof {
		r.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		r.HandleFunc("/debug/pprof/profile", pprof.Profile)
		r.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		r.HandleFunc("/debug/pprof/trace", pprof.Trace)
		r.HandleFunc("/debug/pprof/*", pprof.Index)
	}
	return r
}

// identified gives a request its id where nothing else is noted of it.
func identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &record{requestID: requestID(r)}
		w.Header().Set("X-Request-Id", rec.requestID)
		next.ServeHTTP(w, r.WithContext(withRecord(r.Context(), rec)))
	})
}
