package conformance

import (
	"net/http"
	"slices"
	"strings"
)

// onPlain calls f for lists without any filter.
func onPlain(f func(x *exchange)) func(x *exchange) {
	return func(x *exchange) {
		if x.method == http.MethodGet && x.path == "/instances" && x.query == "" {
			f(x)
		}
	}
}

func listMutants() []mutant {
	return []mutant{
		{name: "the list is short", red: "L1", after: onPlain(func(x *exchange) {
			x.without(func(o map[string]any) bool { return role(o, "main") })
		})},
		{name: "those without a uid are left out", red: "L1", after: onPlain(func(x *exchange) {
			x.without(func(o map[string]any) bool { return o["uid"] == "" })
		})},
		{name: "the list has doubles", red: "L1", after: onPlain(func(x *exchange) {
			x.double(func(o map[string]any) bool { return role(o, "main") })
		})},
		{name: "the list is for people", red: "L1", after: func(x *exchange) {
			if x.path == "/instances" && x.query == "" && x.status == http.StatusOK && x.method != http.MethodPost {
				x.answer.Set("Content-Type", "text/html")
			}
		}},
		{name: "the list is in disorder", red: "L1", after: onPlain(func(x *exchange) {
			x.edit(func(o map[string]any) {
				all, _ := o["items"].([]any)
				slices.Reverse(all)
			})
		})},
	}
}

func filterMutants() []mutant {
	return []mutant{
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
		{name: "a partial list does not say what it lacks", red: "L2", after: func(x *exchange) {
			if x.query == "partial=true" {
				x.edit(func(o map[string]any) { o["unreachable"] = []any{map[string]any{}} })
			}
		}},
		{name: "wrong filters are forgiven", red: "L4", before: func(x *exchange) {
			if x.query == "tag=x" || strings.HasPrefix(x.query, "host=nohost-") {
				x.query = ""
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
