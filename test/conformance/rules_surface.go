package conformance

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
)

var surfaceRules = []rule{
	{"console", "the end of the console's history as text", checkConsole},
	{"images", "what is on the hosts; a pull of what is there is success", checkImages},
	{"HEAD", "HEAD answers as GET does, without the body", checkHead},
	{"X-Request-Id", "the caller's request id is taken, or one is made, and comes back", checkRequestID},
	{"auth", "nobody unknown gets in, before anything else is looked at", checkAuth},
}

func checkConsole(ctx context.Context, p *probe) error {
	m, err := p.main(ctx)
	if err != nil {
		return err
	}
	whole, err := p.get(ctx, m.path+"/console")
	if err != nil {
		return err
	}
	p.that(whole.status == http.StatusOK && mediaType(whole) == "text/plain", "it is 200 and plain text", "got %s", whole)
	p.that(len(whole.body) <= 64<<10, "it is 64 KiB at most", "got %d bytes", len(whole.body))
	end, err := p.get(ctx, m.path+"/console?bytes=5")
	if err != nil {
		return err
	}
	p.that(end.status == http.StatusOK && len(end.body) <= 5, "bytes=5 gives no more", "got %d bytes", len(end.body))
	var faults []string
	for _, n := range []string{"0", "-1", "x", "2097153"} {
		a, err := p.get(ctx, m.path+"/console?bytes="+n)
		if err != nil {
			return err
		}
		if !a.is(http.StatusBadRequest, "Permanent", "InvalidRequest") {
			faults = append(faults, fmt.Sprintf("bytes=%s: got %s", n, a))
		}
	}
	p.none(faults, "bytes of 0, less, too many, or no number are 400 InvalidRequest")
	a, err := p.get(ctx, "/instances/"+p.id(p.name("silent"))+"/console")
	if err != nil {
		return err
	}
	p.that(a.status == http.StatusNotFound, "that of no instance is 404", "got %s", a)
	return nil
}

func isImageState(s string) bool {
	return slices.Contains([]string{"absent", "downloading", "ready", "failed"}, s)
}

// images reads GET /images.
func (s *session) images(ctx context.Context, query string) (answer, []image, error) {
	a, err := s.get(ctx, "/images"+query)
	if err != nil {
		return a, nil, err
	}
	l, err := decode[struct{ Items []image }](a)
	return a, l.Items, err
}

// imageReady reports whether the main instance's image is ready on its host, and
// how many overlays use it.
func (p *probe) imageReady(rows []image) (overlays int, ready bool) {
	for _, row := range rows {
		if row.Image == p.placement.Image && row.Host == p.placement.Host && row.State == "ready" && row.Overlays != nil {
			return *row.Overlays, true
		}
	}
	return 0, false
}

func checkImages(ctx context.Context, p *probe) error {
	if _, err := p.main(ctx); err != nil {
		return err
	}
	a, rows, err := p.images(ctx, "?host="+p.placement.Host)
	if err != nil {
		return err
	}
	var faults []string
	for _, row := range rows {
		switch {
		case row.Image == "" || row.Identity == "" || row.Host != p.placement.Host || !isImageState(row.State),
			row.State == "ready" && (row.SizeBytes == nil || row.Overlays == nil),
			row.State == "downloading" && row.DoneBytes == nil,
			row.State == "failed" && row.Reason == "":
			faults = append(faults, fmt.Sprintf("%+v", row))
		}
	}
	p.none(faults, "each has image, host, identity, state, and what belongs to its state")
	overlays, ready := p.imageReady(rows)
	p.that(ready && overlays > 0, "the image of an instance is ready on its host and in use", "got %s", a)
	pull := call{method: http.MethodPost, path: "/images/" + p.placement.Image + "/pull?host=" + p.placement.Host}
	if a, err = p.ask(ctx, pull); err != nil {
		return err
	}
	p.that(a.status == http.StatusAccepted, "a pull of what is there is 202", "got %s", a)
	pull.path = "/images/noimage-" + p.run + "/pull"
	if a, err = p.ask(ctx, pull); err != nil {
		return err
	}
	p.refuses(a, http.StatusUnprocessableEntity, "Permanent", "UnknownImage", "a pull of an unknown one")
	return nil
}

func checkHead(ctx context.Context, p *probe) error {
	m, err := p.main(ctx)
	if err != nil {
		return err
	}
	var faults []string
	for _, path := range []string{"/instances", m.path, m.path + "/console", "/images", "/placements", "/version", "/openapi.yaml", "/health", "/nowhere-" + p.run} {
		get, err := p.get(ctx, path)
		if err != nil {
			return err
		}
		head, err := p.ask(ctx, call{method: http.MethodHead, path: path})
		if err != nil {
			return err
		}
		same := head.status == get.status && head.header.Get("Content-Type") == get.header.Get("Content-Type") && len(head.body) == 0
		if !same {
			faults = append(faults, fmt.Sprintf("HEAD %s: got %s, where GET got %s", path, head, get))
		}
	}
	p.none(faults, "status and Content-Type are GET's on every path, those that do not exist too")
	return nil
}

var requestIDRE = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func checkRequestID(ctx context.Context, p *probe) error {
	longest := pad("A._-9", 64)
	for what, path := range inOrder(map[string]string{"a success": "/version", "a problem": "/nowhere"}) {
		for _, id := range []string{"id." + p.run, longest} {
			a, err := p.send(ctx, call{method: http.MethodGet, path: path, header: map[string]string{"X-Request-Id": id}})
			if err != nil {
				return err
			}
			p.that(a.header.Get("X-Request-Id") == id, fmt.Sprintf("one of %d on %s comes back", len(id), what), "got %q for %q", a.header.Get("X-Request-Id"), id)
		}
	}
	given := map[string]bool{}
	var faults []string
	for _, row := range []struct{ what, id string }{
		{"one that is too long", longest + "x"}, {"one with a space", "a b"}, {"one with a quote", `a"b`}, {"an absent one", ""}, {"another absent one", ""},
	} {
		a, err := p.send(ctx, call{method: http.MethodGet, path: "/version", header: map[string]string{"X-Request-Id": row.id}})
		if err != nil {
			return err
		}
		got := a.header.Get("X-Request-Id")
		if got == row.id || !requestIDRE.MatchString(got) || given[got] {
			faults = append(faults, fmt.Sprintf("%s: got %q", row.what, got))
		}
		given[got] = true
	}
	p.none(faults, "absent and malformed ones are replaced by new ones")
	return nil
}

func checkAuth(ctx context.Context, p *probe) error {
	open, err := p.send(ctx, call{method: http.MethodGet, path: "/version", anonymous: true})
	if err != nil {
		return err
	}
	if open.ok() {
		p.invisible("everybody may call here")
		return nil
	}
	var faults []string
	wrong := map[string]string{"Authorization": "Bearer wrong-" + p.run}
	for _, row := range []struct {
		what string
		call call
	}{
		{"a read without a token", call{method: http.MethodGet, path: "/instances", anonymous: true}},
		{"a path that does not exist", call{method: http.MethodGet, path: "/nowhere", anonymous: true}},
		{"a body that is no JSON", call{method: http.MethodPost, path: "/instances", body: []byte("{"), anonymous: true}},
		{"a wrong method", call{method: http.MethodPut, path: "/instances", anonymous: true}},
		{"a malformed id", call{method: http.MethodGet, path: "/instances/x", anonymous: true}},
		{"a wrong token", call{method: http.MethodGet, path: "/version", header: wrong, anonymous: true}},
	} {
		a, err := p.send(ctx, row.call)
		if err != nil {
			return err
		}
		if !a.is(http.StatusUnauthorized, "Permanent", "Unauthorized") || a.header.Get("WWW-Authenticate") == "" {
			faults = append(faults, fmt.Sprintf("%s: WWW-Authenticate %q: %s", row.what, a.header.Get("WWW-Authenticate"), a))
		}
	}
	p.none(faults, "without a token, or with a wrong one, any request is 401 Unauthorized with WWW-Authenticate")
	return nil
}
