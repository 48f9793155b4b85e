package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decoder fills a Config from YAML nodes. It does what yaml's own decoder with
// KnownFields does, and beyond that knows the path of every key, goes on after
// a fault, and guesses nothing about plain scalars.
type decoder struct{ report *report }

// defaulter is a value with defaults that apply once its block is there.
type defaulter interface{ setDefaults() }

var durationType = reflect.TypeFor[time.Duration]()

func (d *decoder) root(n *yaml.Node, cfg *Config) {
	d.report.at("", n.Line)
	d.value(n, reflect.ValueOf(cfg).Elem(), "")
}

// value decodes n into v, which is at path.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		d.report.unreadable(path, n.Line, "anchors and aliases are not supported: write the value out")
		return
	case n.ShortTag() == "!!null":
		d.report.unreadable(path, n.Line, "no value: give one, or leave the key out")
		return
	case v.Type() == durationType:
		d.duration(n, v, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path)
	case reflect.Struct:
		d.block(n, v, path)
	case reflect.Slice:
		d.list(n, v, path)
	case reflect.Map:
		d.named(n, v, path)
	case reflect.String:
		d.text(n, v, path)
	case reflect.Int:
		d.number(n, v, path)
	case reflect.Bool:
		d.flag(n, v, path)
	default:
		panic("config: no decoder for " + v.Type().String())
	}
}

// block decodes a mapping into a struct.
func (d *decoder) block(n *yaml.Node, v reflect.Value, path string) {
	if def, ok := reflect.TypeAssert[defaulter](v.Addr()); ok {
		def.setDefaults()
	}
	fields := fieldsOf(v.Type())
	d.pairs(n, path, func(key, val *yaml.Node, at string) {
		i := slices.Index(fields, key.Value)
		if i < 0 {
			d.report.unreadable(at, key.Line, "unknown key%s", suggest(key.Value, fields))
			return
		}
		d.value(val, v.Field(i), at)
	})
}

// named decodes a mapping whose keys are names.
func (d *decoder) named(n *yaml.Node, v reflect.Value, path string) {
	v.Set(reflect.MakeMap(v.Type()))
	d.pairs(n, path, func(key, val *yaml.Node, at string) {
		if trap := plainTrap(key); trap != "" {
			d.report.unreadable(at, key.Line, "%s", trap)
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(val, elem, at)
		v.SetMapIndex(reflect.ValueOf(key.Value), elem)
	})
}

// pairs calls each for every key of a mapping, once, with the path of the key.
func (d *decoder) pairs(n *yaml.Node, path string, each func(key, val *yaml.Node, at string)) {
	if n.Kind != yaml.MappingNode {
		d.report.unreadable(path, n.Line, "want a block of keys, got %s", describe(n))
		return
	}
	first := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		switch line, seen := first[key.Value]; {
		case key.Kind != yaml.ScalarNode || key.Anchor != "":
			d.report.unreadable(path, key.Line, "a key must be a plain name")
		case key.ShortTag() == "!!merge":
			d.report.unreadable(at, key.Line, "merge keys are not supported: write the keys out")
		case seen:
			d.report.unreadable(at, key.Line, "given twice: first on line %d", line)
		default:
			first[key.Value] = key.Line
			d.report.at(at, key.Line)
			each(key, val, at)
		}
	}
}

// list decodes a sequence.
func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.report.unreadable(path, n.Line, "want a list, got %s", describe(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.report.at(at, item.Line)
		d.value(item, v.Index(i), at)
	}
}

// text decodes a string: quoted, or plain and nothing else in any YAML. What a
// trap holds is kept, so that those who refer to it by name are not at fault.
func (d *decoder) text(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode {
		d.report.unreadable(path, n.Line, "want text, got %s", describe(n))
		return
	}
	if trap := plainTrap(n); trap != "" {
		d.report.unreadable(path, n.Line, "%s", trap)
	}
	v.SetString(n.Value)
}

var decimalRE = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// number decodes a decimal integer; octal, hexadecimal, 1e3 and 1_000 are refused.
func (d *decoder) number(n *yaml.Node, v reflect.Value, path string) {
	if !plainScalar(n) || !decimalRE.MatchString(n.Value) {
		d.report.unreadable(path, n.Line, "want a whole number in plain decimal, got %s", describe(n))
		return
	}
	i, err := strconv.ParseInt(n.Value, 10, v.Type().Bits())
	if err != nil {
		d.report.unreadable(path, n.Line, "the number is out of range")
		return
	}
	v.SetInt(i)
}

func (d *decoder) flag(n *yaml.Node, v reflect.Value, path string) {
	if !plainScalar(n) || (n.Value != "true" && n.Value != "false") {
		d.report.unreadable(path, n.Line, "want true or false, got %s", describe(n))
		return
	}
	v.SetBool(n.Value == "true")
}

// duration decodes a number with a unit, or 0.
func (d *decoder) duration(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode {
		d.report.unreadable(path, n.Line, "want a duration such as 30s or 15m, got %s", describe(n))
		return
	}
	dur, err := time.ParseDuration(n.Value)
	if err != nil {
		d.report.unreadable(path, n.Line, "want a duration with a unit, such as 30s or 15m, got %s", describe(n))
		return
	}
	v.SetInt(int64(dur))
}

func plainScalar(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Style == 0 }

// yamlWords are plain words that some YAML reader takes for a truth value.
var yamlWords = []string{"y", "n", "yes", "no", "on", "off", "true", "false"}

// plainTrap says why a plain scalar is not safely text; "" when it is.
func plainTrap(n *yaml.Node) string {
	switch {
	case n.Style&(yaml.TaggedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 && n.ShortTag() != "!!str":
		return "want text, got " + describe(n)
	case n.Style != 0:
		return ""
	case slices.Contains(yamlWords, strings.ToLower(n.Value)):
		return fmt.Sprintf("want text: without quotes, %s is a truth value to YAML; write %q", n.Value, n.Value)
	case n.ShortTag() != "!!str":
		return "want text, got " + describe(n) + ": put it in quotes"
	}
	return ""
}

// describe says what a node is without repeating text that may be a secret.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a block of keys"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Value == "":
		return "empty text"
	case n.Style == 0 && n.ShortTag() != "!!str" && len(n.Value) <= 32:
		return n.Value
	case n.Style == 0 && slices.Contains(yamlWords, strings.ToLower(n.Value)):
		return n.Value
	}
	return "text"
}

// fieldsOf returns the keys of a struct in the order of its fields; those
// without a key come last.
func fieldsOf(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		if key, ok := f.Tag.Lookup("yaml"); ok {
			names = append(names, key)
		}
	}
	return names
}

var plainKeyRE = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)

// join appends a key to a path; one that is no plain name is quoted.
func join(path, key string) string {
	switch {
	case !plainKeyRE.MatchString(key):
		if len(key) > 63 {
			key = key[:63] + "…"
		}
		return path + "[" + strconv.QuoteToASCII(key) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// suggest names the key that was probably meant, else all that are known.
func suggest(key string, known []string) string {
	for _, k := range known {
		if strings.EqualFold(k, key) || near(k, key) {
			return fmt.Sprintf(": did you mean %s?", k)
		}
	}
	return ": known here are " + strings.Join(known, ", ")
}
