package sim

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"

	libvirt "github.com/digitalocean/go-libvirt"
)

// element is a node of free XML with its names as they were written, since
// libvirt hands metadata back with the prefixes that it was given.
type element struct {
	name     string
	attrs    []xml.Attr
	text     string
	children []*element
}

// parseElements reads the elements of a fragment. It fails on what is not well formed.
func parseElements(doc string) ([]*element, error) {
	root := &element{}
	open := []*element{root}
	d := xml.NewDecoder(strings.NewReader(doc))
	for {
		tok, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			if len(open) != 1 {
				return nil, errors.New("premature end of data")
			}
			return root.children, nil
		}
		if err != nil {
			return nil, err
		}
		top := open[len(open)-1]
		switch t := tok.(type) {
		case xml.StartElement:
			e := &element{name: qualified(t.Name), attrs: t.Copy().Attr}
			top.children = append(top.children, e)
			open = append(open, e)
		case xml.EndElement:
			if len(open) == 1 || top.name != qualified(t.Name) {
				return nil, errors.New("opening and ending tag mismatch")
			}
			open = open[:len(open)-1]
		case xml.CharData:
			top.text += string(t)
		}
	}
}

func qualified(n xml.Name) string {
	if n.Space == "" {
		return n.Local
	}
	return n.Space + ":" + n.Local
}

// namespace is the one that the element declares for itself, "" for none.
func (e *element) namespace() string {
	prefix, _, prefixed := strings.Cut(e.name, ":")
	want := "xmlns"
	if prefixed {
		want = "xmlns:" + prefix
	}
	for _, a := range e.attrs {
		if qualified(a.Name) == want {
			return a.Value
		}
	}
	return ""
}

// declares reports whether the element declares any namespace.
func (e *element) declares() bool {
	for _, a := range e.attrs {
		if a.Name.Space == "xmlns" || a.Name.Local == "xmlns" {
			return true
		}
	}
	return false
}

// bind puts the element and what is below it, as far as it has no prefix, into
// a namespace, as SetMetadata does.
func (e *element) bind(prefix, uri string) {
	declaration := xml.Attr{Name: xml.Name{Space: "xmlns", Local: prefix}, Value: uri}
	e.attrs = append([]xml.Attr{declaration}, e.attrs...)
	e.prefixAll(prefix)
}

func (e *element) prefixAll(prefix string) {
	if !strings.Contains(e.name, ":") {
		e.name = prefix + ":" + e.name
	}
	for _, c := range e.children {
		c.prefixAll(prefix)
	}
}

// write renders the element, indented by two spaces a level from indent on.
func (e *element) write(b *strings.Builder, indent string) {
	b.WriteString(indent + "<" + e.name)
	for _, a := range e.attrs {
		b.WriteString(" " + qualified(a.Name) + `="` + escape(a.Value) + `"`)
	}
	text := strings.TrimSpace(e.text)
	switch {
	case len(e.children) > 0:
		b.WriteString(">\n")
		for _, c := range e.children {
			c.write(b, indent+"  ")
		}
		b.WriteString(indent + "</" + e.name + ">\n")
	case text != "":
		b.WriteString(">" + escape(e.text) + "</" + e.name + ">\n")
	default:
		b.WriteString("/>\n")
	}
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder does not fail
	return b.String()
}

// metadata is the content of a domain's <metadata>. It is never changed in
// place, so that a running domain and its stored definition may share it.
type metadata []*element

// with returns a copy in which the element of namespace uri is replaced by doc,
// or left out when doc is "".
func (m metadata) with(doc, key, uri string) (metadata, error) {
	var fresh *element
	if doc != "" {
		parsed, err := parseElements(doc)
		if err != nil || len(parsed) != 1 {
			return nil, fail(libvirt.ErrXMLDetail, "(metadata_xml):1: not one well-formed element")
		}
		fresh = parsed[0]
		if fresh.declares() {
			return nil, fail(libvirt.ErrInternalError, "internal error: failed to create a new XML namespace")
		}
		fresh.bind(key, uri)
	}
	var out metadata
	for _, e := range m {
		if e.namespace() != uri {
			out = append(out, e)
		}
	}
	if fresh != nil {
		out = append(out, fresh)
	}
	return out, nil
}

// inner is what stands between <metadata> and </metadata>.
func (m metadata) inner() string {
	var b strings.Builder
	b.WriteString("\n")
	for _, e := range m {
		e.write(&b, "    ")
	}
	return b.String() + "  "
}
