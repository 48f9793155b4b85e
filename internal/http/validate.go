package http

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/go-chi/chi/v5"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/api"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/http/gen"
)

// validator holds each request against its operation in the contract. It sits
// behind the router, which has found the operation already.
type validator struct {
	routes map[string]*routers.Route // by method and pattern
	bodies bodies
}

// contractRoutes reads the embedded contract, once: it is the same for every
// server and never changes.
var contractRoutes = sync.OnceValues(func() (map[string]*routers.Route, error) {
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI)
	if err != nil {
		return nil, fmt.Errorf("read openapi.yaml: %w", err)
	}
	routes := map[string]*routers.Route{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			routes[method+" "+path] = &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: op}
		}
	}
	return routes, nil
})

func newValidator(b bodies) (*validator, error) {
	routes, err := contractRoutes()
	return &validator{routes: routes, bodies: b}, err
}

func (v *validator) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := v.check(w, r); err != nil {
			fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// check reads the body and validates r. What the validator itself forgives
// (unknown, repeated and empty query parameters, trailing data, duplicate keys)
// is checked here first.
func (v *validator) check(w http.ResponseWriter, r *http.Request) error {
	rctx := chi.RouteContext(r.Context())
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	route, ok := v.routes[method+" "+rctx.RoutePattern()]
	if !ok {
		return fmt.Errorf("route %s %s is not in the contract", method, rctx.RoutePattern())
	}
	query, err := checkQuery(route, r.URL)
	if err != nil {
		return err
	}
	if err := v.checkBody(route.Operation, w, r); err != nil {
		return err
	}
	params, err := pathParams(rctx)
	if err != nil {
		return err
	}
	joinHeader(r.Header, "Prefer")
	err = openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, QueryParams: query, Route: route,
		Options: &openapi3filter.Options{
			MultiError: true,
			// Defaults are applied where requests become types; written into
			// the body they would cost an encoding of it.
			SkipSettingDefaults: true,
			AuthenticationFunc:  openapi3filter.NoopAuthenticationFunc,
		},
	})
	if err != nil {
		return &invalid{faults: faultsOf(err)}
	}
	return nil
}

// checkBody reads the body of an operation that takes one.
func (v *validator) checkBody(op *openapi3.Operation, w http.ResponseWriter, r *http.Request) error {
	if op.RequestBody == nil {
		return v.bodies.drain(w, r)
	}
	if err := checkMediaType(r.Header); err != nil {
		return err
	}
	data, err := v.bodies.read(w, r)
	if err != nil {
		return err
	}
	if err := checkJSON(data); err != nil {
		return err
	}
	replaceBody(r, data)
	return nil
}

// checkQuery parses the query and refuses what the operation does not declare.
// An empty value is refused everywhere: `?uid=` from a script with an unset
// variable must not delete unguarded.
func checkQuery(route *routers.Route, u *url.URL) (url.Values, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, invalidf("query", "cannot be parsed")
	}
	var faults []gen.FieldError
	for _, name := range slices.Sorted(maps.Keys(query)) {
		param := route.Operation.Parameters.GetByInAndName(openapi3.ParameterInQuery, name)
		if detail := queryFault(param, query[name]); detail != "" {
			faults = append(faults, gen.FieldError{Pointer: "query/" + pointerEscape(name), Detail: detail})
		}
	}
	if faults != nil {
		return nil, &invalid{faults: faults}
	}
	return query, nil
}

func queryFault(param *openapi3.Parameter, values []string) string {
	switch {
	case param == nil:
		return "unknown parameter"
	case len(values) > 1 && !param.Schema.Value.Type.Is(openapi3.TypeArray):
		return "is there twice"
	case slices.Contains(values, ""):
		return "must not be empty"
	default:
		return ""
	}
}

// pathParams returns the decoded path parameters.
func pathParams(rctx *chi.Context) (map[string]string, error) {
	params := make(map[string]string, len(rctx.URLParams.Keys))
	for i, key := range rctx.URLParams.Keys {
		value, err := url.PathUnescape(rctx.URLParams.Values[i])
		if err != nil {
			return nil, invalidf("path/"+key, "cannot be decoded")
		}
		params[key] = value
	}
	return params, nil
}

// joinHeader makes a header that came in several lines one, which it means
// (RFC 9110, 5.3) and the generated binding insists on.
func joinHeader(h http.Header, name string) {
	if values := h.Values(name); len(values) > 1 {
		h.Set(name, strings.Join(values, ", "))
	}
}
