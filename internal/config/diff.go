package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// liveKeys are the parts of the file that a daemon takes over while it runs.
var liveKeys = []string{"kvm2.hosts", "kvm2.images", "kvm2.sizes", "kvm2.placements"}

// Live reports whether a running daemon takes over a change at path, which Diff
// returned. Everything else needs a restart.
func Live(path string) bool {
	return slices.ContainsFunc(liveKeys, func(live string) bool {
		rest, ok := strings.CutPrefix(path, live)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// Diff returns the paths of the keys that differ, defaults filled in, in the
// order of the file's description. Hosts are compared by name and written
// kvm2.hosts.NAME, or kvm2.hosts when only their order differs. It returns no
// values: some are nobody's business.
func Diff(a, b *Config) []string {
	return differences(nil, reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem(), "")
}

func differences(found []string, a, b reflect.Value, path string) []string {
	if reflect.DeepEqual(a.Interface(), b.Interface()) {
		return found
	}
	if hosts, ok := reflect.TypeAssert[[]Host](a); ok {
		others, _ := reflect.TypeAssert[[]Host](b)
		return append(found, hostDifferences(hosts, others, path)...)
	}
	switch {
	case a.Kind() == reflect.Struct:
		for f, value := range a.Fields() {
			if key, ok := f.Tag.Lookup("yaml"); ok {
				found = differences(found, value, b.FieldByIndex(f.Index), join(path, key))
			}
		}
		return found
	case a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil():
		return differences(found, a.Elem(), b.Elem(), path)
	case a.Kind() == reflect.Map:
		return append(found, mapDifferences(a, b, path)...)
	default:
		return append(found, path)
	}
}

// mapDifferences returns the names that only one has, or whose values differ.
func mapDifferences(a, b reflect.Value, path string) []string {
	differ := map[string]bool{}
	for _, m := range []reflect.Value{a, b} {
		for name := range m.Seq() {
			in, other := a.MapIndex(name), b.MapIndex(name)
			if !in.IsValid() || !other.IsValid() || !in.Equal(other) {
				differ[join(path, name.String())] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(differ))
}

func hostDifferences(a, b []Host, path string) []string {
	var found []string
	for _, h := range a {
		if other, ok := hostNamed(b, h.Name); !ok || !reflect.DeepEqual(h, other) {
			found = append(found, join(path, h.Name))
		}
	}
	for _, h := range b {
		if _, ok := hostNamed(a, h.Name); !ok {
			found = append(found, join(path, h.Name))
		}
	}
	if len(found) == 0 {
		return []string{path}
	}
	return found
}

func hostNamed(hosts []Host, name string) (Host, bool) {
	i := slices.IndexFunc(hosts, func(h Host) bool { return h.Name == name })
	if i < 0 {
		return Host{}, false
	}
	return hosts[i], true
}
