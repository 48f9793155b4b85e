package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

var errorRules = []rule{
	{"E1", "whatever is wrong with a request, the answer is a problem that says so", checkE1},
	{"E3", "a problem of an instance says which, and on which host", checkE3},
	{"E4", "NotFound is said by a problem body, so that no bare 404 passes for it", checkE4},
}

// wrong is one way of being wrong and its answer, whose kind is Permanent.
type wrong struct {
	what           string
	call           call
	status         int
	reason, naming string // naming is what a pointer of errors must be
}

func checkE1(ctx context.Context, p *probe) error {
	for what, rows := range inOrder(map[string][]wrong{
		"creates with a wrong body are 400 InvalidRequest, and errors name the place": p.wrongBodies(),
		"wrong parameters, media types, methods and paths are 400, 415, 405, 404":     p.wrongRequests(),
		"ids of another shape are 400 MalformedID":                                    p.malformedIDs(),
	}) {
		var faults []string
		for _, row := range rows {
			a, err := p.send(ctx, row.call)
			if err != nil {
				return fmt.Errorf("%s: %w", row.what, err)
			}
			if fault := row.fault(a); fault != "" {
				faults = append(faults, fmt.Sprintf("%s: %s: %s", row.what, fault, a))
			}
		}
		p.none(faults, fmt.Sprintf("%d %s", len(rows), what))
	}
	if err := p.checkTooLarge(ctx); err != nil {
		return err
	}
	var faults []string
	for _, a := range p.answers() {
		if fault := p.shapeFault(a); fault != "" {
			faults = append(faults, fmt.Sprintf("%s %s: %s: %s", a.call.method, a.call.path, fault, a))
		}
	}
	p.none(faults, "every problem of this run has the shape of one, and a kind that goes with its status")
	return nil
}

// fault says what is wrong with the answer to w.
func (w wrong) fault(a answer) string {
	named := slices.ContainsFunc(a.problem().Errors, func(f field) bool { return f.Pointer == w.naming })
	switch {
	case !a.is(w.status, "Permanent", w.reason):
		return fmt.Sprintf("it is not %d Permanent %s", w.status, w.reason)
	case w.naming != "" && !named:
		return "errors do not name " + w.naming
	case w.status == http.StatusMethodNotAllowed && !strings.Contains(a.header.Get("Allow"), http.MethodGet):
		return fmt.Sprintf("Allow is %q", a.header.Get("Allow"))
	}
	return ""
}

// wrongBodies are creates that nothing comes of.
func (p *probe) wrongBodies() []wrong {
	least := p.least("wrong")
	whole := string(least.json())
	open := strings.TrimSuffix(whole, "}")
	post := func(body string) call {
		return call{method: http.MethodPost, path: "/instances?dryRun=true", body: []byte(body)}
	}
	invalid := func(what, naming, body string) wrong {
		return wrong{what, post(body), http.StatusBadRequest, "InvalidRequest", naming}
	}
	encoded := base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n"))
	return []wrong{
		invalid("a missing field", "#/placement", `{"name":"`+p.name("wrong")+`"}`),
		invalid("a field of another type", "#/autostart", open+`,"autostart":"`+p.value("yes")+`"}`),
		invalid("a null", "#/tags", open+`,"tags":null}`),
		invalid("an unknown field", "#/colour", open+`,"colour":"`+p.value("red")+`"}`),
		invalid("two faults, the second", "#/uid", open+`,"colour":"x","uid":"a b"}`),
		invalid("something after the JSON", "#", whole+` {"name":"`+p.value("tail")+`"}`),
		invalid("garbage after the JSON", "#", whole+p.value("tail")),
		invalid("a key that is there twice", "#/uid", open+`,"uid":"a","uid":"`+p.value("twice")+`"}`),
		invalid("a tag that is there twice", "#/tags/a", open+`,"tags":{"a":"1","a":"2"}}`),
		invalid("a body that ends too early", "#", open),
		invalid("a body that is no JSON", "#", p.value("text")),
		invalid("an empty body", "#", ""),
		invalid("an array", "#", "["+whole+"]"),
		invalid("bytes that are no UTF-8", "#", open+",\"cloudInit\":\"\xff\xfe\"}"),
		invalid("half a character", "#", open+`,"cloudInit":"\ud800"}`),
		invalid("two sorts of user data", "#/cloudInitBase64", open+`,"cloudInit":"x","cloudInitBase64":"`+encoded+`"}`),
		invalid("bad base64", "#/cloudInitBase64", open+`,"cloudInitBase64":"`+p.value("=")+`"}`),
	}
}

// wrongRequests are wrong in something else than the body.
func (p *probe) wrongRequests() []wrong {
	least := p.least("wrong").json()
	sent := func(header, value string) call {
		return call{method: http.MethodPost, path: "/instances?dryRun=true", body: least, header: map[string]string{header: value}}
	}
	query := func(q string) call { return call{method: http.MethodPost, path: "/instances?" + q, body: least} }
	bare := func(method, path string) call { return call{method: method, path: path} }
	const mediaType, method = http.StatusUnsupportedMediaType, http.StatusMethodNotAllowed
	return []wrong{
		{"an unknown parameter", query("dryRun=true&colour=red"), http.StatusBadRequest, "InvalidRequest", "query/colour"},
		{"a parameter that is there twice", query("dryRun=true&dryRun=true"), http.StatusBadRequest, "InvalidRequest", "query/dryRun"},
		{"a parameter of another type", query("dryRun=maybe"), http.StatusBadRequest, "InvalidRequest", "query/dryRun"},
		{"an empty parameter", query("dryRun="), http.StatusBadRequest, "InvalidRequest", "query/dryRun"},
		{"text/plain", sent("Content-Type", "text/plain"), mediaType, "UnsupportedMediaType", ""},
		{"a form", sent("Content-Type", "application/x-www-form-urlencoded"), mediaType, "UnsupportedMediaType", ""},
		{"no media type", sent("Content-Type", ""), mediaType, "UnsupportedMediaType", ""},
		{"JSON in another encoding", sent("Content-Type", "application/json; charset=utf-16"), mediaType, "UnsupportedMediaType", ""},
		{"a compressed body", sent("Content-Encoding", "gzip"), mediaType, "UnsupportedMediaType", ""},
		{"PUT /instances", bare(http.MethodPut, "/instances"), method, "MethodNotAllowed", ""},
		{"PATCH on an instance", bare(http.MethodPatch, "/instances/"+p.id(p.name("wrong"))), method, "MethodNotAllowed", ""},
		{"DELETE /health", bare(http.MethodDelete, "/health"), method, "MethodNotAllowed", ""},
		{"a path that does not exist", bare(http.MethodGet, "/nowhere-"+p.run), http.StatusNotFound, "RouteNotFound", ""},
		{"another method there", bare(http.MethodDelete, "/nowhere-"+p.run), http.StatusNotFound, "RouteNotFound", ""},
		{"a path with a slash too many", bare(http.MethodGet, "/instances-"+p.run+"/"), http.StatusNotFound, "RouteNotFound", ""},
	}
}

// malformedIDs are ids in every other shape than the right one.
func (p *probe) malformedIDs() []wrong {
	id := p.id(p.name("wrong"))
	escaped := url.PathEscape(id)
	var rows []wrong
	for _, row := range []struct{ what, path string }{
		{"an empty id", ""},
		{"a slash", "/"},
		{"..", ".."},
		{"../..", "hosts/../.."},
		{"%2e%2e", "%2e%2e"},
		{"%00", "hosts/" + p.placement.Host + "/domains/%00"},
		{"a line break", "hosts/" + p.placement.Host + "/domains/a%0Ab"},
		{"a trailing slash", id + "/"},
		{"an encoded trailing slash", escaped + "%2F"},
		{"an encoded id with a trailing slash", escaped + "/"},
		{"a doubly encoded id", url.PathEscape(escaped)},
		{"half encoded", "hosts%2F" + p.placement.Host + "/domains/" + p.name("wrong")},
		{"half plain", "hosts/" + p.placement.Host + "%2Fdomains/" + p.name("wrong")},
		{"upper case", strings.Replace(id, "hosts", "HOSTS", 1)},
		{"upper case in the name", id + "X"},
		{"an underscore", id + "_x"},
		{"no name", "hosts/" + p.placement.Host + "/domains/"},
		{"no host", "hosts//domains/" + p.name("wrong")},
		{"only the name", p.name("wrong")},
		{"an unknown word behind it", id + "/start"},
		{"a name of 64", pad("hosts/"+p.placement.Host+"/domains/x", len("hosts/"+p.placement.Host+"/domains/")+64)},
		{"8 KiB", strings.Repeat("x", 8<<10)},
	} {
		rows = append(rows, wrong{row.what, call{method: http.MethodGet, path: "/instances/" + row.path}, http.StatusBadRequest, "MalformedID", ""})
	}
	return append(rows, wrong{"a delete of a malformed id", call{method: http.MethodDelete, path: "/instances/.."}, http.StatusBadRequest, "MalformedID", ""})
}

// checkTooLarge sends a body above the limit, which is 1 MiB unless it was
// raised to at most 64.
func (p *probe) checkTooLarge(ctx context.Context) error {
	for _, mib := range []int{2, 65} {
		body := slices.Concat(bytes.TrimSuffix(p.least("large").json(), []byte("}")), []byte(`,"cloudInit":"`), bytes.Repeat([]byte("#"), mib<<20), []byte(`"}`))
		// The server may answer before it has read everything.
		a, err := p.send(ctx, call{method: http.MethodPost, path: "/instances?dryRun=true", body: body, header: map[string]string{"Expect": "100-continue"}})
		if err != nil {
			return fmt.Errorf("a body of %d MiB: %w", mib, err)
		}
		if a.ok() {
			continue // the limit is higher here
		}
		p.refuses(a, http.StatusRequestEntityTooLarge, "Permanent", "BodyTooLarge", fmt.Sprintf("a body of %d MiB", mib))
		return nil
	}
	p.that(false, "a body of 65 MiB is refused", "it was taken")
	return nil
}

func checkE3(ctx context.Context, p *probe) error {
	name := p.name("lost")
	for what, path := range inOrder(map[string]string{"a read": "", "a console": "/console"}) {
		a, err := p.get(ctx, "/instances/"+p.id(name)+path)
		if err != nil {
			return err
		}
		got := a.problem()
		p.that(strings.Contains(got.Detail, name) && got.Host == p.placement.Host, what+" that fails names instance and host", "got %s", a)
	}
	return nil
}

func checkE4(ctx context.Context, p *probe) error {
	absent := "/instances/" + p.id(p.name("absent"))
	for _, row := range []struct{ what, path string }{
		{"a read", absent}, {"a read in the other form", "/instances/" + url.PathEscape(p.id(p.name("absent")))}, {"a console", absent + "/console"},
	} {
		a, err := p.get(ctx, row.path)
		if err != nil {
			return err
		}
		whole := a.is(http.StatusNotFound, "NotFound", "InstanceNotFound") && problemFault(a) == ""
		p.that(whole, row.what+" of an instance that is not there is 404 InstanceNotFound in a whole problem", "%s: %s", problemFault(a), a)
	}
	return nil
}
