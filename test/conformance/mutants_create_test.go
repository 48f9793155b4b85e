package conformance

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
)

// later calls f for all but the first exchange that match picks.
func later(match func(*exchange) bool, f func(*exchange)) func(*exchange) {
	var n atomic.Int64
	return func(x *exchange) {
		if match(x) && n.Add(1) > 1 {
			f(x)
		}
	}
}

// creating picks the real creates of an instance by its role in the suite.
func creating(role string) func(*exchange) bool {
	return func(x *exchange) bool { return x.creates(role) }
}

func identityMutants() []mutant {
	return []mutant{
		{name: "ids have another shape", red: "I1", after: func(x *exchange) {
			x.instances(func(o map[string]any) { o["id"] = strings.TrimPrefix(fmt.Sprint(o["id"]), "hosts/") })
			if x.answer.Get("Location") != "" {
				x.answer.Set("Location", "/")
			}
		}},
		{name: "the encoded form is another instance", red: "I1", after: func(x *exchange) {
			if x.is(http.MethodGet, "%2F") {
				x.instances(func(o map[string]any) { o["size"] = "other" })
			}
		}},
		{name: "names in upper case are taken", red: "I2", before: func(x *exchange) {
			if bytes.Contains(x.body, []byte(`"name":"Conf-`)) {
				x.body = bytes.Replace(x.body, []byte(`"name":"Conf-`), []byte(`"name":"conf-`), 1)
			}
		}},
		{name: "long names are not taken", red: "I2", before: func(x *exchange) {
			if bytes.Contains(x.body, []byte("-longestx")) {
				x.refuse(http.StatusBadRequest, "Permanent", "InvalidRequest")
			}
		}},
		{name: "uid and tags are lost", red: "I3", after: func(x *exchange) {
			x.instances(func(o map[string]any) {
				if role(o, "main") {
					o["uid"], o["tags"] = "", map[string]any{}
				}
			})
		}},
		{name: "times are local", red: "I3", after: func(x *exchange) {
			x.instances(func(o map[string]any) { o["createdAt"] = strings.Replace(fmt.Sprint(o["createdAt"]), "Z", "+00:00", 1) })
		}},
		{name: "times are long ago", red: "I3", after: func(x *exchange) {
			x.instances(func(o map[string]any) { o["createdAt"] = "2001-01-01T00:00:00Z" })
		}},
	}
}

func createMutants() []mutant {
	return []mutant{
		{name: "a repeat is 201 with a new id", red: "C1", after: later(creating("main"), func(x *exchange) {
			if x.status == http.StatusOK {
				x.status = http.StatusCreated
				x.instances(func(o map[string]any) { o["id"] = fmt.Sprint(o["id"], "-2") })
			}
		})},
		{name: "a repeat changes tags", red: "C1", after: later(creating("main"), func(x *exchange) {
			if bytes.Contains(x.body, []byte(`"role":"repeat"`)) {
				x.instances(func(o map[string]any) { o["tags"] = map[string]any{"role": "repeat"} })
			}
		})},
		{name: "the first create is 200", red: "C1", after: first(creating("main"), func(x *exchange) {
			x.status = http.StatusOK
		})},
		{name: "creates at once make two", red: "C1", after: func(x *exchange) {
			if x.is(http.MethodGet, "/instances") && x.query == "" {
				x.double(func(o map[string]any) bool { return role(o, "race") })
			}
		}},
		{name: "creates at once are all 201", red: "C1", after: func(x *exchange) {
			if x.creates("race") && x.status == http.StatusOK {
				x.status = http.StatusCreated
			}
		}},
		{name: "a create answers too early", red: "C3", after: func(x *exchange) {
			if x.creates("main") && x.status == http.StatusCreated {
				x.instances(func(o map[string]any) { o["state"] = "Stopped" })
			}
		}},
		{name: "a create answers before it can be read", red: "C3", after: first(func(x *exchange) bool { return x.is(http.MethodGet, "-main") }, func(x *exchange) {
			x.refuse(http.StatusNotFound, "NotFound", "InstanceNotFound")
		})},
	}
}

func guardMutants() []mutant {
	return []mutant{
		{name: "what is unknown is invalid", red: "C4", after: func(x *exchange) {
			if bytes.Contains(x.body, []byte(`-unknown"`)) {
				x.refuse(http.StatusBadRequest, "Permanent", "InvalidRequest")
			}
		}},
		{name: "what is known is unknown", red: "C4", after: func(x *exchange) {
			if bytes.Contains(x.body, []byte(`-named"`)) {
				x.refuse(http.StatusUnprocessableEntity, "Permanent", "UnknownImage")
			}
		}},
		{name: "known sizes are not named", red: "C4", after: func(x *exchange) {
			if bytes.Contains(x.out, []byte("UnknownSize")) {
				x.edit(func(o map[string]any) { o["detail"] = "unknown size" })
			}
		}},
		{name: "another uid is taken", red: "C5", before: func(x *exchange) {
			if x.creates("main") && bytes.Contains(x.body, []byte(`-other"`)) {
				x.body = bytes.Replace(x.body, []byte(`-other"`), []byte(`-uid"`), 1)
			}
		}},
		{name: "another uid is another's name", red: "C5", after: func(x *exchange) {
			if x.method == http.MethodPost && x.status == http.StatusConflict {
				x.refuse(http.StatusConflict, "Permanent", "NameTaken")
			}
		}},
		{name: "a missing uid is not adopted", red: "C5", before: func(x *exchange) {
			if x.creates("bare") {
				x.body = bytes.Replace(x.body, []byte(`-adopted"`), []byte(`-nobody"`), 1)
			}
		}},
	}
}

func patienceMutants() []mutant {
	return []mutant{
		{name: "patience ends in another reason", red: "C10", after: func(x *exchange) {
			if x.creates("wait") && bytes.Contains(x.out, []byte("CreateInProgress")) {
				x.refuse(http.StatusGatewayTimeout, "Transient", "Timeout")
			}
		}},
		{name: "a repeat does not join", red: "C10", after: later(creating("wait"), func(x *exchange) {
			x.refuse(http.StatusConflict, "Permanent", "NameTaken")
		})},
		{name: "a repeat joins another", red: "C10", after: later(creating("wait"), func(x *exchange) {
			x.instances(func(o map[string]any) { o["name"] = "other" })
		})},
		{name: "a caller that leaves leaves a lock", red: "E5", before: func(x *exchange) {
			if x.creates("left") {
				x.refuse(http.StatusConflict, "Permanent", "NameTaken")
			}
		}},
		{name: "a dry run is wet", red: "dryRun", before: func(x *exchange) {
			if bytes.Contains(x.body, []byte(`-dry"`)) {
				x.query = ""
			}
		}},
		{name: "a plan lacks what is needed", red: "dryRun", after: func(x *exchange) {
			x.edit(func(o map[string]any) { delete(o, "neededBytes") })
		}},
		{name: "a preference is not told", red: "Prefer", after: func(x *exchange) { x.answer.Del("Preference-Applied") }},
		{name: "a strange preference is refused", red: "Prefer", before: func(x *exchange) {
			if prefer := x.header.Get("Prefer"); prefer == "wait=soon" || prefer == "handling=lenient" {
				x.refuse(http.StatusBadRequest, "Permanent", "InvalidRequest")
			}
		}},
	}
}

// first calls f for the first exchange that match picks.
func first(match func(*exchange) bool, f func(*exchange)) func(*exchange) {
	var n atomic.Int64
	return func(x *exchange) {
		if match(x) && n.Add(1) == 1 {
			f(x)
		}
	}
}
