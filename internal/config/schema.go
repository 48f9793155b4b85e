package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

//go:generate go run ./commentgen
//go:generate gofmt -w comments.gen.go

// schemaDialect is the one that editors know best.
const schemaDialect = "http://json-schema.org/draft-07/schema#"

// forms are what the words of the form tag stand for: the usual spelling of what
// validate takes.
var forms = map[string]string{
	"label":          `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`,
	"listen":         `^.*:[0-9]{1,5}$`,
	"serviceAccount": serviceAccountRE.String(),
	"hostURI":        `^(qemu:///system|qemu\+ssh://[^@/]+@[^@/]+/system)$`,
	"jumpURI":        `^ssh://[^@/]+@[^@/]+/?$`,
	"bridge":         "^$|" + bridgeRE.String(),
	"libvirtName":    nameRE.String(),
	"networkName":    "^$|" + nameRE.String(),
	"absolute":       `^(/.*)?$`,
	"httpURL":        `^[hH][tT][tT][pP][sS]?://.+$`,
	"sha256":         `^[0-9a-f]{64}$`,
	"sha512":         `^[0-9a-f]{128}$`,
}

// durationForm is what time.ParseDuration takes, without a sign.
const durationForm = `^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$`

// Schema returns a JSON Schema of the file, for editors. It is made from the
// types of this package, their tags, comments and defaults. Load refuses more:
// it also compares keys with one another.
func Schema() ([]byte, error) {
	cfg := Default()
	root := schemaOf(reflect.ValueOf(cfg))
	root["$schema"] = schemaDialect
	root["title"] = "Configuration of kvm2d"
	return json.MarshalIndent(root, "", "  ")
}

// schemaOf describes the values of v's type; v itself holds the defaults.
func schemaOf(v reflect.Value) map[string]any {
	t := v.Type()
	switch {
	case t == durationType:
		return map[string]any{"anyOf": []any{
			map[string]any{"type": "string", "pattern": durationForm}, map[string]any{"enum": []any{0, "0"}},
		}}
	case t.Kind() == reflect.Struct:
		return blockSchema(v)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(fresh(t.Elem()))
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(fresh(t.Elem()))}
	case reflect.Map:
		return map[string]any{
			"type": "object", "propertyNames": map[string]any{"pattern": forms["label"]},
			"additionalProperties": schemaOf(fresh(t.Elem())),
		}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Int:
		return map[string]any{"type": "integer"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	default:
		panic("config: no schema for " + t.String())
	}
}

// fresh is a value of t with its defaults.
func fresh(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	if def, ok := reflect.TypeAssert[defaulter](v); ok {
		def.setDefaults()
	}
	return v.Elem()
}

func blockSchema(v reflect.Value) map[string]any {
	properties := map[string]any{}
	required := []string{}
	for f, value := range v.Fields() {
		key, ok := f.Tag.Lookup("yaml")
		if !ok {
			continue
		}
		properties[key] = keySchema(v.Type().Name(), f, value)
		if f.Tag.Get("required") != "" {
			required = append(required, key)
		}
	}
	out := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// keySchema is schemaOf with what the field's tags and comment say besides.
func keySchema(typeName string, f reflect.StructField, v reflect.Value) map[string]any {
	out := schemaOf(v)
	notes := []string{}
	if text := comments[typeName+"."+f.Name]; text != "" {
		notes = append(notes, text)
	}
	if text, ok := f.Tag.Lookup("range"); ok {
		b := parseRange(text, f.Type)
		if b.duration {
			notes = append(notes, strings.Replace(text, "..", " to ", 1)+".")
		} else {
			out["minimum"], out["maximum"] = b.low, b.high
		}
	}
	if words, ok := f.Tag.Lookup("oneof"); ok {
		out["enum"] = strings.Fields(words)
	}
	if form, ok := f.Tag.Lookup("form"); ok {
		out["pattern"] = forms[form]
	}
	if def, ok := defaultOf(v); ok {
		out["default"] = def
	}
	if len(notes) > 0 {
		out["description"] = strings.Join(notes, " ")
	}
	return out
}

// defaultOf returns what a key's value is when it is left out, if it is a plain
// value and not the type's zero.
func defaultOf(v reflect.Value) (any, bool) {
	plain := []reflect.Kind{reflect.String, reflect.Int, reflect.Int64, reflect.Bool}
	if v.IsZero() || !slices.Contains(plain, v.Kind()) {
		return nil, false
	}
	if d, ok := reflect.TypeAssert[time.Duration](v); ok {
		return brief(d), true
	}
	return v.Interface(), true
}

// brief writes a duration as people do: 20m, not 20m0s.
func brief(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d%u.unit == 0 {
			return fmt.Sprintf("%d%s", d/u.unit, u.name)
		}
	}
	return d.String()
}
