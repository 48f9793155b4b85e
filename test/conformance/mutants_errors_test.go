package conformance

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// wrongBody calls change for the suite's wrong creates that hold part.
func wrongBody(part string, change func(x *exchange)) func(x *exchange) {
	return func(x *exchange) {
		if x.method == http.MethodPost && bytes.Contains(x.body, []byte("-wrong")) && bytes.Contains(x.body, []byte(part)) {
			change(x)
		}
	}
}

// onStatus calls change for answers with that status, absent instances' aside.
func onStatus(status int, change func(x *exchange)) func(x *exchange) {
	return func(x *exchange) {
		if x.status == status && !strings.Contains(x.path, "-absent") {
			change(x)
		}
	}
}

// absent calls change for reads of the instance that is not there.
func absent(change func(x *exchange)) func(x *exchange) {
	return func(x *exchange) {
		if x.is(http.MethodGet, "-absent") {
			change(x)
		}
	}
}

// plain makes an answer text.
func plain(text string) func(x *exchange) {
	return func(x *exchange) {
		x.answer.Set("Content-Type", "text/plain; charset=utf-8")
		x.out = []byte(text)
	}
}

func wrongBodyMutants() []mutant {
	return []mutant{
		{name: "unknown fields are forgiven", red: "E1", before: wrongBody(`"colour"`, func(x *exchange) {
			var o map[string]any
			if json.Unmarshal(x.body, &o) == nil {
				delete(o, "colour")
				x.body, _ = json.Marshal(o)
			}
		})},
		{name: "an unknown field is not named", red: "E1", after: wrongBody(`"colour"`, func(x *exchange) {
			x.edit(func(o map[string]any) { delete(o, "errors") })
		})},
		{name: "what follows the JSON is forgiven", red: "E1", before: wrongBody("-tail", func(x *exchange) {
			x.body = x.body[:bytes.IndexByte(x.body, '}')+1]
		})},
		{name: "the last of two keys wins", red: "E1", before: wrongBody(`"uid":"a","uid":`, func(x *exchange) {
			x.body = bytes.Replace(x.body, []byte(`"uid":"a",`), nil, 1)
		})},
		{name: "unknown parameters are forgiven", red: "E1", before: func(x *exchange) {
			x.query = strings.Replace(x.query, "&colour=red", "", 1)
		}},
		{name: "any media type is taken", red: "E1", before: func(x *exchange) {
			if x.header.Get("Content-Type") == "text/plain" {
				x.header.Set("Content-Type", "application/json")
			}
		}},
	}
}

func wrongRequestMutants() []mutant {
	return []mutant{
		{name: "a wrong method is bare", red: "E1", after: onStatus(http.StatusMethodNotAllowed, plain("Method Not Allowed\n"))},
		{name: "a wrong method has no Allow", red: "E1", after: onStatus(http.StatusMethodNotAllowed, func(x *exchange) { x.answer.Del("Allow") })},
		{name: "a large body is a fault of the server", red: "E1", after: onStatus(http.StatusRequestEntityTooLarge, func(x *exchange) {
			x.refuse(http.StatusInternalServerError, "Transient", "Internal")
		})},
		{name: "large bodies are taken", red: "E1", before: func(x *exchange) {
			if i := bytes.IndexByte(x.body, '#'); len(x.body) > 1<<20 {
				x.body = append(x.body[:i], `"}`...)
			}
		}},
		{name: "an unknown path is a bare 404", red: "E1", after: func(x *exchange) {
			if strings.HasPrefix(x.path, "/nowhere-") {
				plain("404 page not found\n")(x)
			}
		}},
		{name: "an unknown path is NotFound", red: "E1", after: func(x *exchange) {
			if x.is(http.MethodGet, "/nowhere-") {
				x.edit(func(o map[string]any) { o["kind"] = "NotFound" })
			}
		}},
		{name: "a malformed id is cleaned up", red: "E1", after: func(x *exchange) {
			if x.path == "/instances/.." && x.method == http.MethodGet {
				x.status = http.StatusMovedPermanently
				x.answer.Set("Location", "/")
			}
		}},
		{name: "a trailing slash is forgiven", red: "E1", before: func(x *exchange) {
			if strings.HasSuffix(x.path, "-wrong/") {
				x.path = strings.TrimSuffix(x.path, "/")
			}
		}},
	}
}

func problemMutants() []mutant {
	return []mutant{
		{name: "an invalid request is Transient", red: "E1", after: onStatus(http.StatusBadRequest, func(x *exchange) {
			if bytes.Contains(x.body, []byte("colour")) {
				x.edit(func(o map[string]any) { o["kind"], o["retryAfterSeconds"] = "Transient", 1 })
				x.answer.Set("Retry-After", "1")
			}
		})},
		{name: "problems are plain JSON", red: "E1", after: onStatus(http.StatusBadRequest, func(x *exchange) {
			x.answer.Set("Content-Type", "application/json")
		})},
		{name: "problems tell another status", red: "E1", after: onStatus(http.StatusBadRequest, func(x *exchange) {
			x.edit(func(o map[string]any) { o["status"] = 200 })
		})},
		{name: "problems are of no request", red: "E1", after: onStatus(http.StatusConflict, func(x *exchange) {
			x.edit(func(o map[string]any) { o["instance"] = "none" })
		})},
		{name: "a wrong method is NotFound", red: "E1", after: onStatus(http.StatusMethodNotAllowed, func(x *exchange) {
			x.edit(func(o map[string]any) { o["kind"] = "NotFound" })
		})},
		{name: "a problem names neither instance nor host", red: "E3", after: func(x *exchange) {
			if x.is(http.MethodGet, "-lost") {
				x.edit(func(o map[string]any) { o["detail"], o["host"] = "not found", "" })
			}
		}},
		{name: "no instance is a bare 404", red: "E4", after: absent(plain("404 page not found\n"))},
		{name: "no instance is Permanent", red: "E4", after: absent(func(x *exchange) {
			x.edit(func(o map[string]any) { o["kind"] = "Permanent" })
		})},
		{name: "no instance is a page for people", red: "E4", after: absent(func(x *exchange) {
			x.status = http.StatusOK
			x.answer.Set("Content-Type", "text/html")
			x.out = []byte("<html>not here</html>")
		})},
		{name: "no instance lacks the request's id", red: "E4", after: absent(func(x *exchange) {
			x.edit(func(o map[string]any) { delete(o, "instance") })
		})},
	}
}
