package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/api"
)

// operation is one call of the contract.
type operation struct {
	name  string
	route *routers.Route
	// path are the pattern's segments.
	path []string
}

// contract is what the daemon promises.
type contract struct {
	operations []operation
	create     operation
	id         *regexp.Regexp
}

func loadContract() (*contract, error) {
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI)
	if err != nil {
		return nil, fmt.Errorf("read the contract: %w", err)
	}
	c := &contract{}
	if c.id, err = regexp.Compile(doc.Components.Schemas["InstanceID"].Value.Pattern); err != nil {
		return nil, fmt.Errorf("read the contract: %w", err)
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			c.operations = append(c.operations, operation{
				name: op.OperationID, path: strings.Split(path[1:], "/"),
				route: &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: op},
			})
		}
	}
	// The order decides which requests a seed makes.
	slices.SortFunc(c.operations, func(a, b operation) int { return cmp.Compare(a.name, b.name) })
	at := slices.IndexFunc(c.operations, func(o operation) bool { return o.name == "createInstance" })
	if at < 0 {
		return nil, errors.New("the contract has no createInstance")
	}
	c.create = c.operations[at]
	return c, nil
}

// find returns the operation that a request is for, and the values in its path;
// false when the contract has none for it.
func (c *contract) find(method, target string) (operation, map[string]string, bool) {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return operation{}, nil, false
	}
	if method == http.MethodHead {
		method = http.MethodGet
	}
	// As it was sent, where that says more than what it decodes to.
	segments, ok := c.segments(cmp.Or(u.RawPath, u.EscapedPath()))
	if !ok {
		return operation{}, nil, false
	}
	for _, op := range c.operations {
		if op.route.Method != method || len(op.path) != len(segments) {
			continue
		}
		if params, ok := op.match(segments); ok {
			return op, params, true
		}
	}
	return operation{}, nil, false
}

// segments cuts a path; both forms of an instance's id become one segment.
func (c *contract) segments(path string) ([]string, bool) {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if !strings.HasPrefix(path, "/") || segments[0] != "instances" || len(segments) == 1 {
		return segments, strings.HasPrefix(path, "/")
	}
	n := 5
	if strings.Contains(segments[1], "%") {
		n = 2
	}
	if len(segments) < n {
		return nil, false
	}
	id, err := url.PathUnescape(strings.Join(segments[1:n], "/"))
	if err != nil || !c.id.MatchString(id) || (n == 5 && strings.Contains(path, "%")) {
		return nil, false
	}
	return append([]string{"instances", url.PathEscape(id)}, segments[n:]...), true
}

func (o operation) match(segments []string) (map[string]string, bool) {
	params := map[string]string{}
	for i, want := range o.path {
		got, err := url.PathUnescape(segments[i])
		if name, ok := strings.CutPrefix(want, "{"); ok {
			if err != nil || got == "" {
				return nil, false
			}
			params[strings.TrimSuffix(name, "}")] = got
		} else if segments[i] != want {
			return nil, false
		}
	}
	return params, true
}

// parameters are the operation's own and those of its path, in a stable order.
func (o operation) parameters() []*openapi3.Parameter {
	byName := map[string]*openapi3.Parameter{}
	for _, list := range []openapi3.Parameters{o.route.PathItem.Parameters, o.route.Operation.Parameters} {
		for _, p := range list {
			byName[p.Value.In+" "+p.Value.Name] = p.Value
		}
	}
	var all []*openapi3.Parameter
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, byName[name])
	}
	return all
}
