package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// bounds holds every value of v, which is at path, against the range or oneof
// tag of its field.
func (r *report) bounds(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			r.bounds(v.Elem(), path)
		}
	case reflect.Struct:
		for f, value := range v.Fields() {
			if key, ok := f.Tag.Lookup("yaml"); ok {
				at := join(path, key)
				r.bound(f.Tag, value, at)
				r.bounds(value, at)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			r.bounds(v.Index(i), item(path, i))
		}
	case reflect.Map:
		for name, value := range v.Seq2() {
			r.bounds(value, join(path, name.String()))
		}
	default: // has nothing inside
	}
}

// bound holds one value against its tags. A word that is optional and not given
// is fine.
func (r *report) bound(tag reflect.StructTag, v reflect.Value, at string) {
	if text, ok := tag.Lookup("range"); ok {
		if b := parseRange(text, v.Type()); !b.holds(v.Int()) {
			r.fault(at, "want %s to %s, got %s", b.show(b.low), b.show(b.high), b.show(v.Int()))
		}
	}
	if text, ok := tag.Lookup("oneof"); ok {
		absent := v.String() == "" && !r.has(at) && tag.Get("required") == ""
		if words := strings.Fields(text); !absent && !slices.Contains(words, v.String()) {
			r.fault(at, "want %s", strings.Join(words, " or "))
		}
	}
}

// limits is a parsed range tag.
type limits struct {
	low, high int64
	// orZero: 0 is fine too, and means something of its own.
	orZero bool
	// duration: the numbers are nanoseconds.
	duration bool
}

// parseRange parses a range tag of a field of type t. A tag that is malformed is
// a mistake in this package, so it panics.
func parseRange(tag string, t reflect.Type) limits {
	b := limits{duration: t == durationType}
	text, orZero := strings.CutPrefix(tag, "0 or ")
	b.orZero = orZero
	low, high, ok := strings.Cut(text, "..")
	if !ok {
		panic("config: malformed range tag " + tag)
	}
	b.low, b.high = b.parse(low), b.parse(high)
	return b
}

func (b limits) parse(s string) int64 {
	var (
		n   int64
		err error
	)
	if b.duration {
		var d time.Duration
		d, err = time.ParseDuration(s)
		n = int64(d)
	} else {
		n, err = strconv.ParseInt(s, 10, 64)
	}
	if err != nil {
		panic(fmt.Sprintf("config: malformed range tag: %v", err))
	}
	return n
}

func (b limits) holds(n int64) bool { return (n >= b.low && n <= b.high) || (b.orZero && n == 0) }

func (b limits) show(n int64) string {
	if b.duration {
		return time.Duration(n).String()
	}
	return strconv.FormatInt(n, 10)
}
