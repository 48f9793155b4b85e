package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
)

// object is a JSON object: a schema, or a part of one.
type object = map[string]any

// configPath is the value that is the daemon's configuration; its schema is the daemon's own.
const configPath = "config"

// schemaOf returns the JSON Schema of values: of each key the type of its default,
// its comment, and what hints add. It allows no key that values.yaml has not.
func schemaOf(values value, h hints) ([]byte, error) {
	s := &schemaWriter{hints: h, used: map[string]bool{}}
	root := s.schema(values)
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = "Values of the chart kvm2d"
	root["definitions"] = h.Definitions
	// Helm hands it to every chart that another one includes, and takes it for that one's condition.
	properties(root)["global"] = object{"type": "object"}
	properties(root)["enabled"] = object{"type": "boolean"}
	for path := range h.Values {
		if !s.used[path] {
			s.fault("%s: a hint for a value that is not there", path)
		}
	}
	if err := errors.Join(s.faults...); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(root)
	return out.Bytes(), err
}

// schemaWriter makes the schema; it goes on after a fault.
type schemaWriter struct {
	hints  hints
	used   map[string]bool
	faults []error
}

func (s *schemaWriter) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Errorf(format, args...))
}

func (s *schemaWriter) schema(v value) object {
	hint, hinted := s.hints.Values[v.Path]
	s.used[v.Path] = s.used[v.Path] || hinted
	out := object{}
	if v.Comment != "" {
		out["description"] = v.Comment
	}
	switch {
	case v.Path == configPath:
		own, err := daemonSchema()
		if err != nil {
			s.fault("%s: %w", v.Path, err)
		}
		maps.Copy(out, own)
	case s.hints.leaf(v):
		s.leafSchema(v, out, hint)
	default:
		below, required := object{}, []any{}
		for _, b := range v.Below {
			below[b.Key()] = s.schema(b)
			if s.needed(b) {
				required = append(required, b.Key())
			}
		}
		out["type"], out["additionalProperties"], out["properties"] = "object", false, below
		if len(required) > 0 {
			out["required"] = required
		}
	}
	// What values.yaml leaves out may be there too.
	if more, ok := hint["properties"].(object); ok && len(v.Below) > 0 {
		maps.Copy(properties(out), more)
		hint = maps.Clone(hint)
		delete(hint, "properties")
	}
	// In draft 7 nothing counts beside a $ref: the description goes around it.
	if ref, ok := hint["$ref"]; ok {
		hint = maps.Clone(hint)
		delete(hint, "$ref")
		out["allOf"] = []any{object{"$ref": ref}}
	}
	maps.Copy(out, hint)
	return out
}

// mayGo are the values that may be null in spite of a default: parts of
// Kubernetes's own types, which mean something by their absence, and what is off.
var mayGo = regexp.MustCompile(`^(podSecurityContext|securityContext|(liveness|readiness|startup)Probe|(test\.)?resources|` +
	`strategy\.rollingUpdate|revisionHistoryLimit|dnsPolicy|ingress|httpRoute)(\.|$)`)

// needed reports whether the chart cannot do without v. Helm takes out what is
// set to null; a default that says nothing can go.
func (s *schemaWriter) needed(v value) bool {
	switch {
	case mayGo.MatchString(v.Path):
		return false
	case !s.hints.leaf(v):
		return true
	}
	return v.Default.Kind == yaml.ScalarNode && v.Default.Value != "" && v.Default.Value != "0" && v.Default.Value != "false"
}

// leafSchema adds the type of v's default to out. Of an empty list or mapping the
// default says too little.
func (s *schemaWriter) leafSchema(v value, out, hint object) {
	if v.Comment == "" {
		s.fault("%s: no comment", v.Path)
	}
	types := map[string]string{"!!str": "string", "!!int": "integer", "!!bool": "boolean"}
	t, scalar := types[v.Default.Tag]
	switch _, ref := hint["$ref"]; {
	case ref:
	case scalar && v.Default.Kind == yaml.ScalarNode:
		out["type"] = t
	case hint["type"] == nil:
		s.fault("%s: a hint has to say what it holds", v.Path)
	}
}

// daemonSchema is the schema of the configuration file, without what the chart
// fills in by itself.
func daemonSchema() (object, error) {
	text, err := config.Schema()
	if err != nil {
		return nil, err
	}
	var root object
	if err := json.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	for _, key := range []string{"$schema", "title"} {
		delete(root, key)
	}
	server := at(root, "server")
	auth := at(server, "auth")
	forget(server, "listen", "adminListen", "tls")
	forget(auth, "token")
	forget(at(auth, "clientCert"), "caFile")
	host, ok := at(root, "kvm2", "hosts")["items"].(object)
	if !ok {
		return nil, errors.New("no schema of a host")
	}
	optional(at(host, "jump"), "knownHostsFile")
	return root, nil
}

// properties are the keys that the schema s knows.
func properties(s object) object {
	p, ok := s["properties"].(object)
	if !ok {
		panic("helm: a schema without properties")
	}
	return p
}

// at is the schema below s at a path of keys, which has to be there.
func at(s object, path ...string) object {
	for _, key := range path {
		next, ok := properties(s)[key].(object)
		if !ok {
			panic("helm: the configuration has no key " + key)
		}
		s = next
	}
	return s
}

// forget takes keys out of the schema s.
func forget(s object, keys ...string) {
	for _, key := range keys {
		at(s, key)
		delete(properties(s), key)
		optional(s, key)
	}
}

// optional makes a key one that may be left out.
func optional(s object, key string) {
	required, ok := s["required"].([]any)
	if !ok {
		return
	}
	s["required"] = slices.DeleteFunc(required, func(name any) bool { return name == key })
}
