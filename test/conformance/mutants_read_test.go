package conformance

import (
	"net/http"
	"strings"
)

// onMain picks reads of the main instance.
func onMain(x *exchange) bool {
	return x.is(http.MethodGet, "-main") && !strings.HasSuffix(x.path, "/console")
}

// running calls change for each instance that has an ip.
func running(change func(o map[string]any, ip string)) func(x *exchange) {
	return func(x *exchange) {
		x.instances(func(o map[string]any) {
			if ip, ok := o["ip"].(string); ok {
				change(o, ip)
			}
		})
	}
}

func stateMutants() []mutant {
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
		{name: "nothing becomes Running", red: "G3", after: running(func(o map[string]any, _ string) {
			delete(o, "ip")
			o["state"], o["stateReason"] = "Provisioning", "no answer yet"
		})},
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
	}
}

func addressMutants() []mutant {
	return []mutant{
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
	}
}

func factMutants() []mutant {
	return []mutant{
		{name: "createdAt changes", red: "G5", after: func(x *exchange) {
			if onMain(x) {
				x.instances(func(o map[string]any) { o["createdAt"] = "2001-01-01T00:00:00Z" })
			}
		}},
		{name: "a read forgets", red: "G5", after: func(x *exchange) {
			if onMain(x) {
				x.instances(forget)
			}
		}},
		{name: "a list forgets", red: "G5", after: func(x *exchange) {
			if x.is(http.MethodGet, "/instances") && strings.HasPrefix(x.query, "host=") {
				x.entries("items", forget)
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

// forget makes an instance one that nothing is known of.
func forget(o map[string]any) {
	o["uid"], o["tags"] = "", map[string]any{}
	delete(o, "createdAt")
}
