package libvirtx

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/instance"
)

// The mark's place in a domain's metadata (I3).
const (
	markNamespace = "https://gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/kvm2"
	markPrefix    = "kvm2"
	markElement   = "instance"
	markTag       = "tag"
)

// markXML is the mark as it is written: attributes and tag children.
type markXML struct {
	XMLName   xml.Name
	Namespace string       `xml:"xmlns:kvm2,attr,omitempty"`
	Managed   string       `xml:"managed,attr"`
	Owner     string       `xml:"owner,attr"`
	UID       string       `xml:"uid,attr"`
	CreatedAt string       `xml:"createdAt,attr,omitempty"`
	Placement string       `xml:"placement,attr"`
	Image     string       `xml:"image,attr"`
	Size      string       `xml:"size,attr"`
	Deleting  string       `xml:"deleting,attr,omitempty"`
	Tags      []markTagXML `xml:""`
}

type markTagXML struct {
	XMLName xml.Name
	Key     string `xml:"key,attr"`
	Value   string `xml:"value,attr"`
}

// formatMark renders the mark as DomainSetMetadata takes it: without prefix
// and namespace, which libvirt adds.
func formatMark(m instance.Mark) (string, error) { return marshalMark(m, "", "") }

// formatMarkQualified renders the mark as it stands inside a domain's XML.
func formatMarkQualified(m instance.Mark) (string, error) {
	return marshalMark(m, markPrefix+":", markNamespace)
}

func marshalMark(m instance.Mark, prefix, namespace string) (string, error) {
	out := markXML{
		XMLName:   xml.Name{Local: prefix + markElement},
		Namespace: namespace,
		Managed:   "true",
		Owner:     m.Owner,
		UID:       m.UID,
		Placement: m.Placement,
		Image:     m.Image,
		Size:      m.Size,
	}
	if !m.CreatedAt.IsZero() {
		out.CreatedAt = m.CreatedAt.UTC().Format(time.RFC3339Nano)
	}
	if m.Deleting {
		out.Deleting = "true"
	}
	for _, key := range slices.Sorted(maps.Keys(m.Tags)) {
		out.Tags = append(out.Tags, markTagXML{
			XMLName: xml.Name{Local: prefix + markTag}, Key: key, Value: m.Tags[key],
		})
	}
	b, err := xml.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("encode mark: %w", err)
	}
	return string(b), nil
}

// errBrokenMark is for a mark of ours that cannot be read.
var errBrokenMark = errors.New("broken mark")

// ParseMetadata finds our mark among the elements of a domain's metadata (the
// inside of <metadata>, or what libvirt gives for our namespace alone). It
// returns nil without an error when there is none, and an error when one that
// claims to be ours cannot be read. libvirt may leave out the namespace
// declaration or the prefix, so names are compared by their local part; an
// element that is bound to another namespace is somebody else's.
func ParseMetadata(metadata string) (*instance.Mark, error) {
	d := xml.NewDecoder(strings.NewReader(metadata))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errBrokenMark, err)
		}
		start, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		if !ourElement(start.Name, markElement) || attr(start, "managed") != "true" {
			if err := d.Skip(); err != nil {
				return nil, fmt.Errorf("%w: %w", errBrokenMark, err)
			}
			continue
		}
		return readMark(d, start)
	}
}

// ourElement reports whether name can be ours: its namespace is ours, absent,
// or our prefix left without a declaration.
func ourElement(name xml.Name, local string) bool {
	return name.Local == local &&
		(name.Space == "" || name.Space == markNamespace || name.Space == markPrefix)
}

func readMark(d *xml.Decoder, start xml.StartElement) (*instance.Mark, error) {
	m := &instance.Mark{
		Owner:     attr(start, "owner"),
		UID:       attr(start, "uid"),
		Placement: attr(start, "placement"),
		Image:     attr(start, "image"),
		Size:      attr(start, "size"),
		Deleting:  attr(start, "deleting") == "true",
	}
	if !instance.ValidLabel(m.Owner) {
		return nil, fmt.Errorf("%w: owner is no DNS label", errBrokenMark)
	}
	if created := attr(start, "createdAt"); created != "" {
		t, err := time.Parse(time.RFC3339, created)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errBrokenMark, err)
		}
		m.CreatedAt = t.UTC()
	}
	tags, err := readTags(d)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBrokenMark, err)
	}
	m.Tags = tags
	return m, nil
}

// readTags reads the children up to the end of the mark; nil when there are none.
func readTags(d *xml.Decoder) (map[string]string, error) {
	var tags map[string]string
	for {
		tok, err := d.Token()
		if err != nil {
			return nil, err
		}
		switch el := tok.(type) {
		case xml.EndElement:
			return tags, nil
		case xml.StartElement:
			if ourElement(el.Name, markTag) {
				if tags == nil {
					tags = make(map[string]string)
				}
				tags[attr(el, "key")] = attr(el, "value")
			}
			if err := d.Skip(); err != nil {
				return nil, err
			}
		}
	}
}

// attr returns the attribute of that local name, "" without.
func attr(el xml.StartElement, local string) string {
	for _, a := range el.Attr {
		if a.Name.Local == local {
			return a.Value
		}
	}
	return ""
}
