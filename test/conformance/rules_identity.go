package conformance

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"
)

var identityRules = []rule{
	{"I1", "an id is hosts/<host>/domains/<name>, and works in both forms", checkI1},
	{"I2", "names, uids and tags keep to their alphabets and lengths", checkI2},
	{"I3", "uid, tags and time of creation are kept", checkI3},
}

func checkI1(ctx context.Context, p *probe) error {
	m, err := p.main(ctx)
	if err != nil {
		return err
	}
	id := p.id(m.name)
	p.that(m.told.ID == id && m.told.Name == m.name && m.told.Host == p.placement.Host,
		"id, name and host are those of placement and request", "want %s, got %s", id, m.made)
	if m.made.status == http.StatusCreated {
		location := m.made.header.Get("Location")
		p.that(strings.HasSuffix(location, m.path), "Location leads to it", "got %q", location)
	}
	plain, err := p.get(ctx, m.path)
	if err != nil {
		return err
	}
	encoded, err := p.get(ctx, "/instances/"+url.PathEscape(id))
	if err != nil {
		return err
	}
	// A guest's address may come between the two.
	same := encoded.ok() && plain.ok() && bytes.Equal(withoutAddress(plain), withoutAddress(encoded))
	p.that(same, "the percent-encoded and the plain form give the same answer", "got %s, and %s", plain, encoded)
	return nil
}

// withoutAddress is an instance's answer up to what changes while it boots.
func withoutAddress(a answer) []byte {
	m, err := decode[machine](a)
	if err != nil {
		return a.body
	}
	return []byte(fmt.Sprint(m.ID, m.Name, m.uid(), m.Host, m.Placement, m.Image, m.Size, m.CreatedAt, m.Tags))
}

func checkI2(ctx context.Context, p *probe) error {
	var faults []string
	wrong := p.wrongShapes()
	for what, over := range inOrder(wrong) {
		a, err := p.dryRun(ctx, p.least("shape").with(over))
		if err != nil {
			return err
		}
		if !a.is(http.StatusBadRequest, "Permanent", "InvalidRequest") {
			faults = append(faults, fmt.Sprintf("%s: got %s", what, a))
		}
	}
	p.none(faults, fmt.Sprintf("%d wrong names, uids and tags are 400 InvalidRequest", len(wrong)))
	most := emptyTags(31)
	maps.Copy(most, map[string]string{pad("A/b_c.-", 63): strings.Repeat("ž", 256)})
	sp := spec{"name": pad(p.name("longest"), 63), "placement": p.placement.Name, "uid": pad("A.b:c_d-", 128), "tags": most}
	p.expect(sp)
	a, err := p.dryRun(ctx, sp)
	if err != nil {
		return err
	}
	p.that(a.ok(), "the longest of each is taken", "got %s", a)
	return nil
}

// emptyTags returns n tags.
func emptyTags(n int) map[string]string {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprintf("tag-%02d", i)] = ""
	}
	return all
}

// wrongShapes are names, uids and tags that break a rule each.
func (p *probe) wrongShapes() map[string]spec {
	return map[string]spec{
		"a name in upper case":             {"name": "Conf-" + p.run},
		"a name with a dot":                {"name": "conf." + p.run},
		"a name with an underscore":        {"name": "conf_" + p.run},
		"a name with a slash":              {"name": "conf/" + p.run},
		"a name that starts with -":        {"name": "-conf" + p.run},
		"a name that ends with -":          {"name": "conf-" + p.run + "-"},
		"a name that is no ASCII":          {"name": "cönf-" + p.run},
		"a name with a line break":         {"name": "conf-" + p.run + "\n"},
		"a name of 64":                     {"name": pad("conf"+p.run, 64)},
		"an empty name":                    {"name": ""},
		"a uid with a space":               {"uid": p.value("a b")},
		"a uid of 129":                     {"uid": pad(p.value("uid"), 129)},
		"33 tags":                          {"tags": emptyTags(33)},
		"a tag key with a space":           {"tags": map[string]string{"a b": "x"}},
		"a tag key of 64":                  {"tags": map[string]string{pad("key", 64): "x"}},
		"a tag value of 257":               {"tags": map[string]string{"key": pad(p.value("tag"), 257)}},
		"a tag value with a control byte":  {"tags": map[string]string{"key": "a\x01b"}},
		"a tag value with a line break":    {"tags": map[string]string{"key": "a\nb"}},
		"a tag value with an XML non-char": {"tags": map[string]string{"key": "a\uffffb"}},
	}
}

// pad lengthens s to n characters.
func pad(s string, n int) string { return s + strings.Repeat("x", n-len(s)) }

func checkI3(ctx context.Context, p *probe) error {
	const skew = 15 * time.Minute // between this machine's clock and the server's
	m, err := p.main(ctx)
	if err != nil {
		return err
	}
	p.that(m.told.uid() == m.spec["uid"], "the uid is the one given", "got %s", m.made)
	want, _ := m.spec["tags"].(map[string]string)
	p.that(maps.Equal(m.told.Tags, want), "the tags are those given", "got %s", m.made)
	created, ok := m.told.created()
	p.that(ok, "createdAt is RFC 3339 in UTC", "got %q", m.told.CreatedAt)
	p.that(!ok || time.Since(created) < p.settings.CreateTimeout+skew && time.Until(created) < skew, "it is about now", "got %s", created)
	return nil
}

// created reads createdAt; ok tells whether it is RFC 3339 in UTC.
func (m machine) created() (at time.Time, ok bool) {
	at, err := time.Parse(time.RFC3339, m.CreatedAt)
	return at, err == nil && strings.HasSuffix(m.CreatedAt, "Z")
}
