package conformance

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
)

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

// beside calls f for the creates and deletes of the main instance that are sent at
// once, and not for the delete after them.
func beside(f func(x *exchange)) func(x *exchange) {
	const deletes = 3
	var n atomic.Int64
	repeat := later(func(x *exchange) bool { return x.creates("main") && bytes.Contains(x.body, []byte(`-second"`)) }, f)
	var again atomic.Bool
	return func(x *exchange) {
		repeat(x)
		if x.creates("main") && bytes.Contains(x.body, []byte(`-second"`)) {
			again.Store(true)
		}
		if again.Load() && x.is(http.MethodDelete, "-main") && n.Add(1) <= deletes {
			f(x)
		}
	}
}

func deleteMutants() []mutant {
	return []mutant{
		{name: "a second delete is NotFound", red: "D1", after: afterDelete(func(x *exchange) {
			if x.is(http.MethodDelete, "-main") || x.is(http.MethodDelete, "-never") {
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
		{name: "deletes beside a create are refused", red: "D4", before: beside(func(x *exchange) {
			x.refuse(http.StatusConflict, "Permanent", "NameTaken")
		})},
	}
}

func deleteGuardMutants() []mutant {
	return []mutant{
		{name: "its own uid deletes it, with a page", red: "D5", after: first(func(x *exchange) bool {
			return x.is(http.MethodDelete, "-main") && strings.HasSuffix(x.query, "-uid")
		}, func(x *exchange) { x.status = http.StatusOK })},
		{name: "another uid deletes", red: "D5", before: func(x *exchange) {
			if x.method == http.MethodDelete && strings.HasSuffix(x.query, "-other") {
				x.query = ""
			}
		}},
		{name: "another uid seems to delete", red: "D5", before: func(x *exchange) {
			if x.method == http.MethodDelete && strings.HasSuffix(x.query, "-other") {
				x.status, x.answer = http.StatusNoContent, http.Header{"Cache-Control": {"no-store"}}
			}
		}},
		{name: "an empty uid is no guard", red: "D5", before: func(x *exchange) {
			if x.method == http.MethodDelete && x.query == "uid=" {
				x.query = ""
			}
		}},
	}
}
