package http

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/http/gen"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// newRouter builds what is in front of every route. The order of the middleware
// is part of the contract: a request is counted and logged whatever becomes of
// it; load is refused before credentials are looked at; nobody unknown learns
// whether a path exists; ids become one form before the router sees them; and
// only then is the request held against the contract, in front of its handler.
func newRouter(o Options, v *validator, m *metrics) *chi.Mux {
	r := chi.NewRouter()
	r.Use(
		otelhttp.NewMiddleware("kvm2d",
			otelhttp.WithTracerProvider(o.Tracer),
			otelhttp.WithPropagators(propagation.TraceContext{}),
			// The request metrics are Prometheus ones, with bounded labels.
			otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()),
		),
		(&observer{log: o.Log, metrics: m}).middleware,
		fixedHeaders,
		v.bodies.deadline,
		limitInFlight(o.MaxRequests),
		(&gate{authenticators: o.Auth}).middleware,
		newCallerShare(o.MaxRequestsPerCaller).middleware,
		canonicalIDs,
		middleware.GetHead,
	)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		fail(w, r, instance.Errorf(instance.ReasonRouteNotFound, "this service has no such path"))
	})
	r.MethodNotAllowed(methodNotAllowed(r))
	return r
}

// routeContract adds the operations of the contract to r.
func routeContract(r chi.Router, h *handlers, v *validator) {
	gen.HandlerWithOptions(h, gen.ChiServerOptions{
		BaseRouter: r.With(v.middleware),
		ErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, _ error) {
			// The validator has passed the parameters; what the binding still
			// refuses is named without its text, which holds values.
			fail(w, r, invalidf("query", "a parameter cannot be read"))
		},
	})
}

// fixedHeaders are on every answer.
func fixedHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// methodNotAllowed answers 405 with the methods that the path has; a path that
// has none does not exist, whatever the method was.
func methodNotAllowed(routes chi.Routes) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if !routes.Match(chi.NewRouteContext(), method, path) {
				continue
			}
			allowed = append(allowed, method)
			if method == http.MethodGet {
				allowed = append(allowed, http.MethodHead)
			}
		}
		if allowed == nil {
			fail(w, r, instance.Errorf(instance.ReasonRouteNotFound, "this service has no such path"))
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		fail(w, r, instance.Errorf(instance.ReasonMethodNotAllowed, "this path has %s", strings.Join(allowed, ", ")))
	}
}
