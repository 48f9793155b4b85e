package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
)

func readMutants() []mutant {
	onMain := func(x *exchange) bool { return x.is(http.MethodGet, "-main") && !strings.HasSuffix(x.path, "/console") }
	running := func(change func(o map[string]any, ip string)) func(x *exchange) {
		return func(x *exchange) {
			x.instances(func(o map[string]any) {
				if ip, ok := o["ip"].(string); ok {
					change(o, ip)
				}
			})
		}
	}
	return []mutant{
		{name: "a deleted instance is out of reach", red: "G1", after: afterDelete(func(x *exchange) {
			if onMain(x) {
				x.refuse(http.StatusServiceUnavailable, "Transient", "Unreachable")
			}
		})},
		{name: "an ip while Provisioning", red: "G3", after: func(x *exchange) {
			x.instances(func(o map[string]any) {
				if o["state"] == "Provisioning" {
					o["ip"] = "192.0.2.7"
				}
			})
		}},
		{name: "Running without an ip", red: "G3", after: running(func(o map[string]any, _ string) { delete(o, "ip") })},
		{name: "a state of its own", red: "G3", after: func(x *exchange) {
			x.instances(func(o map[string]any) {
				if o["state"] == "Provisioning" {
					o["state"] = "Booting"
				}
			})
		}},
		{name: "no reason in words", red: "G3", after: func(x *exchange) {
			x.instances(func(o map[string]any) { delete(o, "stateReason") })
		}},
		{name: "the ip of a bridge in the guest", red: "G4", after: running(func(o map[string]any, _ string) { o["ip"] = "172.17.0.1" })},
		{name: "an address of another card", red: "G4", after: running(func(o map[string]any, _ string) {
			all, _ := o["addresses"].([]any)
			o["addresses"] = append(all, map[string]any{"address": "172.17.0.1", "family": "ipv4", "source": "agent", "mac": "02:42:00:00:00:01"})
		})},
		{name: "a link-local ip", red: "G4", after: running(func(o map[string]any, ip string) {
			o["ip"] = "169.254.7.7"
			all, _ := o["addresses"].([]any)
			for _, entry := range all {
				if a, ok := entry.(map[string]any); ok && a["address"] == ip {
					a["address"] = "169.254.7.7"
				}
			}
		})},
		{name: "a source of its own", red: "G4", after: running(func(o map[string]any, _ string) {
			all, _ := o["addresses"].([]any)
			for _, entry := range all {
				if a, ok := entry.(map[string]any); ok {
					a["source"] = "guess"
				}
			}
		})},
		{name: "createdAt changes", red: "G5", after: func(x *exchange) {
			if onMain(x) {
				x.instances(func(o map[string]any) { o["createdAt"] = "2001-01-01T00:00:00Z" })
			}
		}},
		{name: "a list forgets uids", red: "G5", after: func(x *exchange) {
			if x.is(http.MethodGet, "/instances") && strings.HasPrefix(x.query, "host=") {
				x.entries("items", func(o map[string]any) { o["uid"] = "" })
			}
		}},
		{name: "a host that is not configured is NotFound", red: "G6", after: func(x *exchange) {
			if x.is(http.MethodGet, "/nohost-") {
				x.refuse(http.StatusNotFound, "NotFound", "InstanceNotFound")
			}
		}},
		{name: "what is no id is NotFound", red: "G6", after: func(x *exchange) {
			if x.is(http.MethodGet, "-no-id") {
				x.refuse(http.StatusNotFound, "NotFound", "InstanceNotFound")
			}
		}},
	}
}

// afterDelete calls f for what comes after the delete of the main instance.
func afterDelete(f func(x *exchange)) func(x *exchange) {
	var deleted atomic.Bool
	return func(x *exchange) {
		if deleted.Load() {
			f(x)
		}
		if x.is(http.MethodDelete, "-main") && strings.HasSuffix(x.query, "-uid") {
			deleted.Store(true)
		}
	}
}

func listMutants() []mutant {
	plain := func(x *exchange) bool { return x.method == http.MethodGet && x.path == "/instances" && x.query == "" }
	onPlain := func(f func(x *exchange)) func(x *exchange) {
		return func(x *exchange) {
			if plain(x) {
				f(x)
			}
		}
	}
	return []mutant{
		{name: "the list is short", red: "L1", after: onPlain(func(x *exchange) {
			x.without(func(o map[string]any) bool { return role(o, "main") })
		})},
		{name: "those without a uid are left out", red: "L1", after: onPlain(func(x *exchange) {
			x.without(func(o map[string]any) bool { return o["uid"] == "" })
		})},
		{name: "the list has doubles", red: "L1", after: onPlain(func(x *exchange) {
			x.edit(func(o map[string]any) {
				all, _ := o["items"].([]any)
				double := []any{}
				for _, entry := range all {
					double = append(double, entry)
					if e, ok := entry.(map[string]any); ok && role(e, "main") {
						double = append(double, entry)
					}
				}
				o["items"] = double
			})
		})},
		{name: "the list is in disorder", red: "L1", after: onPlain(func(x *exchange) {
			x.edit(func(o map[string]any) {
				all, _ := o["items"].([]any)
				slices.Reverse(all)
			})
		})},
		{name: "unreachable is missing", red: "L2", after: onPlain(func(x *exchange) {
			x.edit(func(o map[string]any) { delete(o, "unreachable") })
		})},
		{name: "a list that is not whole, unasked", red: "L2", after: onPlain(func(x *exchange) {
			x.edit(func(o map[string]any) {
				o["unreachable"] = []any{map[string]any{"host": "elsewhere", "reason": "Unreachable"}}
			})
		})},
		{name: "no partial list", red: "L2", before: func(x *exchange) {
			if x.query == "partial=true" {
				x.refuse(http.StatusBadRequest, "Permanent", "InvalidRequest")
			}
		}},
		{name: "tags do not filter", red: "L4", before: func(x *exchange) {
			if strings.HasPrefix(x.query, "tag=conformance") {
				x.query = ""
			}
		}},
		{name: "only the first tag filters", red: "L4", before: func(x *exchange) {
			if one, _, two := strings.Cut(x.query, "&tag="); two {
				x.query = one
			}
		}},
		{name: "nothing is null", red: "L4", after: func(x *exchange) {
			if x.query != "" && x.path == "/instances" {
				x.edit(func(o map[string]any) {
					if all, ok := o["items"].([]any); ok && len(all) == 0 {
						o["items"] = nil
					}
				})
			}
		}},
	}
}

func deleteMutants() []mutant {
	empty := func(x *exchange) {
		x.status, x.out, x.answer = http.StatusNoContent, nil, http.Header{"Cache-Control": {"no-store"}}
	}
	return []mutant{
		{name: "a second delete is NotFound", red: "D1", after: afterDelete(func(x *exchange) {
			if x.is(http.MethodDelete, "-main") && x.query == "" {
				x.refuse(http.StatusNotFound, "NotFound", "InstanceNotFound")
			}
		})},
		{name: "a delete takes the image along", red: "D2", after: afterDelete(func(x *exchange) {
			if x.is(http.MethodGet, "/images") {
				x.entries("items", func(o map[string]any) { o["state"] = "absent" })
			}
		})},
		{name: "a host that is not configured cannot be deleted on", red: "D3", after: func(x *exchange) {
			if x.is(http.MethodDelete, "/nohost-") {
				x.refuse(http.StatusUnprocessableEntity, "Permanent", "HostNotConfigured")
			}
		}},
		{name: "a delete answers too early", red: "D4", after: afterDelete(func(x *exchange) {
			if x.method == http.MethodGet && x.path == "/instances" {
				x.edit(func(o map[string]any) {
					all, _ := o["items"].([]any)
					for _, entry := range all {
						if e, ok := entry.(map[string]any); ok && role(e, "bare") {
							o["items"] = append(all, map[string]any{"name": strings.TrimSuffix(fmt.Sprint(e["name"]), "bare") + "main", "state": "Stopped"})
						}
					}
				})
			}
		})},
		{name: "a deleted name stays taken", red: "D4", before: afterDelete(func(x *exchange) {
			if x.creates("main") {
				x.refuse(http.StatusConflict, "Permanent", "UIDMismatch")
			}
		})},
		{name: "another uid deletes", red: "D5", before: func(x *exchange) {
			if x.method == http.MethodDelete && strings.HasSuffix(x.query, "-other") {
				x.query = ""
			}
		}},
		{name: "another uid seems to delete", red: "D5", before: func(x *exchange) {
			if x.method == http.MethodDelete && strings.HasSuffix(x.query, "-other") {
				empty(x)
			}
		}},
		{name: "an empty uid is no guard", red: "D5", before: func(x *exchange) {
			if x.method == http.MethodDelete && x.query == "uid=" {
				x.query = ""
			}
		}},
	}
}
