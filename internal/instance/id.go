package instance

import (
	"regexp"
	"strings"
)

// ID names an instance for life: a configured host and a domain name, both
// DNS-1123 labels. Its text form is hosts/<host>/domains/<name>.
type ID struct {
	Host string
	Name string
}

// maxIDBytes is hosts/ + 63 + /domains/ + 63.
const maxIDBytes = 6 + 63 + 9 + 63

var labelRE = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ValidLabel reports whether s is a DNS-1123 label: 1 to 63 of a-z 0-9 -,
// starting and ending with a letter or digit. Names of instances, hosts and
// owners are; nothing else reaches XML, a file name or a volume name.
func ValidLabel(s string) bool { return labelRE.MatchString(s) }

// String formats the ID; ParseID is its inverse.
func (id ID) String() string { return "hosts/" + id.Host + "/domains/" + id.Name }

// ParseID parses the text form. Any other shape is Permanent, MalformedID.
// Whether the host is configured is not asked here.
func ParseID(s string) (ID, error) {
	if len(s) <= maxIDBytes {
		rest, ok := strings.CutPrefix(s, "hosts/")
		host, name, found := strings.Cut(rest, "/domains/")
		if ok && found && ValidLabel(host) && ValidLabel(name) {
			return ID{Host: host, Name: name}, nil
		}
	}
	return ID{}, &Error{
		Reason: ReasonMalformedID, Op: "parse id",
		Detail: "want hosts/<host>/domains/<name>, both lower-case DNS labels of 1 to 63 characters",
	}
}
