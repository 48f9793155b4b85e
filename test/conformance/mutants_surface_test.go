package conformance

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
)

// on calls change for answers to GET path.
func on(path string, change func(x *exchange)) func(x *exchange) {
	return func(x *exchange) {
		if x.method == http.MethodGet && x.path == path {
			change(x)
		}
	}
}

// laterOn calls change for all but the first answer to GET or HEAD path.
func laterOn(path string, change func(x *exchange)) func(x *exchange) {
	return later(func(x *exchange) bool {
		return x.path == path && (x.method == http.MethodGet || x.method == http.MethodHead)
	}, change)
}

func catalogMutants() []mutant {
	return []mutant{
		{name: "placements are in disorder", red: "placements", after: on("/placements", func(x *exchange) {
			x.edit(func(o map[string]any) {
				all, _ := o["items"].([]any)
				slices.Reverse(all)
			})
		})},
		{name: "placements are for people, and lack a size", red: "placements", after: laterOn("/placements", func(x *exchange) {
			x.answer.Set("Content-Type", "text/html")
			x.entries("items", func(o map[string]any) { delete(o, "size") })
		})},
		{name: "a placement is there twice", red: "placements", after: on("/placements", func(x *exchange) {
			x.edit(func(o map[string]any) {
				all, _ := o["items"].([]any)
				o["items"] = append(all, all[len(all)-1])
			})
		})},
		{name: "no compiler", red: "version", after: on("/version", func(x *exchange) {
			x.edit(func(o map[string]any) { delete(o, "goVersion") })
		})},
		{name: "a page in place of the contract", red: "openapi", after: func(x *exchange) {
			if x.path == "/openapi.yaml" {
				x.answer.Set("Content-Type", "text/html")
				x.out = []byte("<html>")
			}
		}},
	}
}

func healthMutants() []mutant {
	return []mutant{
		{name: "a host is missing", red: "H1", after: on("/health", func(x *exchange) {
			x.edit(func(o map[string]any) {
				all, _ := o["hosts"].([]any)
				o["hosts"] = all[:1]
			})
		})},
		{name: "a host is there twice", red: "H1", after: on("/health", func(x *exchange) {
			x.edit(func(o map[string]any) {
				all, _ := o["hosts"].([]any)
				o["hosts"] = append(all, all[0])
			})
		})},
		{name: "the order changes", red: "H1", after: laterOn("/health", func(x *exchange) {
			x.edit(func(o map[string]any) {
				all, _ := o["hosts"].([]any)
				slices.Reverse(all)
			})
		})},
		{name: "degraded though all are ready", red: "H1", after: on("/health", func(x *exchange) {
			x.edit(func(o map[string]any) { o["status"] = "degraded" })
		})},
		{name: "a reason of its own", red: "H2", after: on("/health", func(x *exchange) {
			x.entries("hosts", func(o map[string]any) { o["reason"] = "Fine" })
		})},
		{name: "a fact is missing", red: "H2", after: on("/health", func(x *exchange) {
			x.entries("hosts", func(o map[string]any) {
				details, _ := o["details"].(map[string]any)
				delete(details, "libvirtVersion")
			})
		})},
		{name: "no latency", red: "H2", after: on("/health", func(x *exchange) {
			x.entries("hosts", func(o map[string]any) { delete(o, "latencyMs") })
		})},
	}
}

func resourceMutants() []mutant {
	return []mutant{
		{name: "the image of an instance is not on its host", red: "images", after: beforeDelete(func(x *exchange) {
			if x.is(http.MethodGet, "/images") {
				x.without(func(map[string]any) bool { return true })
			}
		})},
		{name: "an image has no identity", red: "images", after: on("/images", func(x *exchange) {
			x.entries("items", func(o map[string]any) { delete(o, "identity") })
		})},
		{name: "a pull is 200, or NotFound", red: "images", after: func(x *exchange) {
			switch {
			case x.status == http.StatusAccepted:
				x.status = http.StatusOK
			case x.is(http.MethodPost, "/noimage-"):
				x.refuse(http.StatusNotFound, "NotFound", "ImageNotOnHost")
			}
		}},
		{name: "a console for people, always there", red: "console", after: func(x *exchange) {
			if strings.HasSuffix(x.path, "-main/console") && x.query == "" || strings.HasSuffix(x.path, "-silent/console") {
				x.status = http.StatusOK
				x.answer.Set("Content-Type", "text/html")
				if x.method == http.MethodGet {
					x.out = bytes.Repeat([]byte("<br>"), 20<<10)
				}
			}
		}},
		{name: "the whole console", red: "console", before: func(x *exchange) {
			if x.query == "bytes=5" {
				x.query = ""
			}
		}},
		{name: "any number of bytes", red: "console", before: func(x *exchange) {
			if x.query == "bytes=0" {
				x.query = "bytes=1"
			}
		}},
	}
}

// beforeDelete calls f for what comes before the delete of the main instance.
func beforeDelete(f func(x *exchange)) func(x *exchange) {
	var deleted atomic.Bool
	note := afterDelete(func(*exchange) { deleted.Store(true) })
	return func(x *exchange) {
		if note(x); !deleted.Load() {
			f(x)
		}
	}
}

func secretMutants() []mutant {
	return []mutant{
		{name: "a problem repeats the body", red: "S1", after: func(x *exchange) {
			if x.status == http.StatusBadRequest && bytes.Contains(x.body, []byte("-red")) {
				x.edit(func(o map[string]any) { o["detail"] = "no such field: " + string(x.body) })
			}
		}},
		{name: "a header repeats the body", red: "S1", after: func(x *exchange) {
			if x.status == http.StatusBadRequest && bytes.Contains(x.body, []byte("-unknown")) {
				x.answer.Set("X-Fault", strings.Map(printableASCII, string(x.body)))
			}
		}},
		{name: "user data can be read", red: "S1", after: func(x *exchange) {
			x.instances(func(o map[string]any) {
				if role(o, "main") {
					_, run, _ := strings.Cut(fmt.Sprint(o["name"]), "-")
					o["cloudInit"] = "#!/bin/sh\n# secret-" + strings.TrimSuffix(run, "-main") + "\n"
				}
			})
		}},
		{name: "user data can be read, encoded", red: "S1", after: func(x *exchange) {
			var sent struct{ CloudInit string }
			if x.creates("main") && json.Unmarshal(x.body, &sent) == nil {
				x.answer.Set("X-User-Data", base64.StdEncoding.EncodeToString([]byte(sent.CloudInit)))
			}
		}},
	}
}

func surfaceMutants() []mutant {
	return []mutant{
		{name: "Retry-After is missing", red: "Retry-After", after: func(x *exchange) { x.answer.Del("Retry-After") }},
		{name: "Retry-After differs from the body", red: "Retry-After", after: func(x *exchange) {
			if x.answer.Get("Retry-After") != "" {
				x.edit(func(o map[string]any) { o["retryAfterSeconds"] = 99 })
			}
		}},
		{name: "Retry-After on what is Permanent", red: "Retry-After", after: func(x *exchange) {
			if x.status == http.StatusConflict {
				x.answer.Set("Retry-After", "5")
			}
		}},
		{name: "answers may be kept", red: "Cache-Control", after: func(x *exchange) { x.answer.Del("Cache-Control") }},
		{name: "HEAD is refused", red: "HEAD", after: func(x *exchange) {
			if x.method == http.MethodHead && x.path == "/version" {
				x.status = http.StatusMethodNotAllowed
				x.answer.Set("Content-Type", "application/problem+json")
			}
		}},
		{name: "the request id is ignored", red: "X-Request-Id", before: func(x *exchange) { x.header.Del("X-Request-Id") }},
		{name: "any request id is taken", red: "X-Request-Id", after: func(x *exchange) {
			if id := x.header.Get("X-Request-Id"); id != "" {
				x.answer.Set("X-Request-Id", id)
			}
		}},
		{name: "no request id is made", red: "X-Request-Id", after: func(x *exchange) {
			if x.path == "/version" && x.header.Get("X-Request-Id") == "" {
				x.answer.Del("X-Request-Id")
			}
		}},
		{name: "any token is taken", red: "auth", before: func(x *exchange) {
			if strings.HasPrefix(x.header.Get("Authorization"), "Bearer wrong-") {
				x.status, x.answer = 0, http.Header{}
			}
		}},
		{name: "strangers learn what exists", red: "auth", before: func(x *exchange) {
			if x.header.Get("Authorization") == "" && x.path == "/nowhere" {
				x.status, x.answer = 0, http.Header{}
			}
		}},
		{name: "strangers are not told how", red: "auth", after: func(x *exchange) { x.answer.Del("Www-Authenticate") }},
	}
}

func printableASCII(r rune) rune {
	if r < ' ' || r > '~' {
		return '.'
	}
	return r
}
