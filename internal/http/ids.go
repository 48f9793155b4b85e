package http

import (
	"net/http"
	"net/url"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

const instancesPrefix = "/instances/"

// canonicalIDs brings both forms of an id in a path to one, the percent-encoded
// segment that the routes and the contract know, and refuses every other shape
// under /instances/. After it no path of an instance holds anything but an id
// and a known word.
func canonicalIDs(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.URL.EscapedPath(), instancesPrefix)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		id, tail, err := splitInstancePath(rest)
		if err != nil {
			recordFrom(r.Context()).route = instancesPrefix + "{id}"
			fail(w, r, err)
			return
		}
		recordFrom(r.Context()).about(id.Host, id.Name)
		u := *r.URL
		u.Path = instancesPrefix + id.String() + tail
		u.RawPath = instancesPrefix + url.PathEscape(id.String()) + tail
		canonical := new(http.Request)
		*canonical = *r
		canonical.URL = &u
		next.ServeHTTP(w, canonical)
	})
}

// splitInstancePath reads what follows /instances/: an id in one segment,
// percent-encoded, or in four plain ones; then nothing or /console. Anything
// else is MalformedID.
func splitInstancePath(rest string) (id instance.ID, tail string, err error) {
	segments := strings.Split(rest, "/")
	idSegments := 4
	if strings.Contains(segments[0], "%") {
		idSegments = 1
	}
	if len(segments) > idSegments {
		if len(segments) != idSegments+1 || segments[idSegments] != "console" {
			return instance.ID{}, "", malformedID()
		}
		tail = "/console"
		segments = segments[:idSegments]
	}
	text := strings.Join(segments, "/")
	if idSegments == 1 {
		if text, err = url.PathUnescape(text); err != nil {
			return instance.ID{}, "", malformedID()
		}
	}
	id, err = instance.ParseID(text)
	return id, tail, err
}

func malformedID() error {
	_, err := instance.ParseID("")
	return err
}
