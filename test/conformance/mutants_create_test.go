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

func createMutants() []mutant {
	creates := func(role string) func(*exchange) bool {
		return func(x *exchange) bool { return x.creates(role) }
	}
	return []mutant{
		{name: "ids have another shape", red: "I1", after: func(x *exchange) {
			x.instances(func(o map[string]any) { o["id"] = strings.TrimPrefix(fmt.Sprint(o["id"]), "hosts/") })
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
		{name: "tags are lost", red: "I3", after: func(x *exchange) {
			x.instances(func(o map[string]any) { o["tags"] = map[string]any{} })
		}},
		{name: "times are local", red: "I3", after: func(x *exchange) {
			x.instances(func(o map[string]any) { o["createdAt"] = strings.Replace(fmt.Sprint(o["createdAt"]), "Z", "+00:00", 1) })
		}},
		{name: "times are long ago", red: "I3", after: func(x *exchange) {
			x.instances(func(o map[string]any) { o["createdAt"] = "2001-01-01T00:00:00Z" })
		}},
		{name: "a repeat is 201 with a new id", red: "C1", after: later(creates("main"), func(x *exchange) {
			if x.status == http.StatusOK {
				x.status = http.StatusCreated
				x.instances(func(o map[string]any) { o["id"] = fmt.Sprint(o["id"], "-2") })
			}
		})},
		{name: "a repeat changes tags", red: "C1", after: later(creates("main"), func(x *exchange) {
			if bytes.Contains(x.body, []byte(`"role":"repeat"`)) {
				x.instances(func(o map[string]any) { o["tags"] = map[string]any{"role": "repeat"} })
			}
		})},
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
		{name: "an unknown image is Transient", red: "C4", after: func(x *exchange) {
			if bytes.Contains(x.out, []byte("UnknownImage")) && bytes.Contains(x.body, []byte("-unknown")) {
				x.refuse(http.StatusServiceUnavailable, "Transient", "HostBusy")
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
		{name: "a missing uid is not adopted", red: "C5", before: func(x *exchange) {
			if x.creates("bare") {
				x.body = bytes.Replace(x.body, []byte(`-adopted"`), []byte(`-nobody"`), 1)
			}
		}},
		{name: "patience ends in another reason", red: "C10", after: func(x *exchange) {
			if x.creates("wait") && bytes.Contains(x.out, []byte("CreateInProgress")) {
				x.refuse(http.StatusGatewayTimeout, "Transient", "Timeout")
			}
		}},
		{name: "a repeat does not join", red: "C10", after: later(creates("wait"), func(x *exchange) {
			x.refuse(http.StatusConflict, "Permanent", "NameTaken")
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
			if x.header.Get("Prefer") == "wait=soon" {
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
