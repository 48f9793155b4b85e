package instance

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxTags          = 32
	maxTagValueChars = 256
)

var (
	uidRE    = regexp.MustCompile(`^[A-Za-z0-9._:-]{0,128}$`)
	tagKeyRE = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,63}$`)
)

// Fault is one thing that is wrong with a request.
type Fault struct {
	// Pointer is an RFC 6901 pointer into the request's body.
	Pointer string
	Detail  string
}

// validate returns InvalidRequest with every fault of the request's shape. It
// repeats no value: a misplaced secret would end up in the answer.
func (s Spec) validate() error {
	var faults []Fault
	add := func(ok bool, pointer, detail string) {
		if !ok {
			faults = append(faults, Fault{Pointer: pointer, Detail: detail})
		}
	}
	add(ValidLabel(s.Name), "/name", "want a DNS-1123 label: 1 to 63 of a-z 0-9 -, starting and ending with a letter or digit")
	add(uidRE.MatchString(s.UID), "/uid", "want up to 128 of A-Z a-z 0-9 . _ : -")
	add(s.Placement != "", "/placement", "is required")
	add(len(s.Tags) <= maxTags, "/tags", fmt.Sprintf("want at most %d tags", maxTags))
	for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
		if !tagKeyRE.MatchString(key) {
			add(false, "/tags", "want keys of 1 to 63 of A-Z a-z 0-9 . _ / -")
			continue
		}
		add(validTagValue(s.Tags[key]), "/tags/"+pointerEscaper.Replace(key),
			fmt.Sprintf("want up to %d characters without control characters", maxTagValueChars))
	}
	return invalid("create instance", faults)
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// validTagValue also refuses the two code points that XML cannot carry though
// they are no control characters.
func validTagValue(v string) bool {
	if !utf8.ValidString(v) || utf8.RuneCountInString(v) > maxTagValueChars {
		return false
	}
	return !strings.ContainsFunc(v, func(r rune) bool {
		return unicode.IsControl(r) || r == 0xFFFE || r == 0xFFFF
	})
}

func invalid(op string, faults []Fault) error {
	if len(faults) == 0 {
		return nil
	}
	details := make([]string, 0, len(faults))
	for _, f := range faults {
		details = append(details, f.Pointer+": "+f.Detail)
	}
	return &Error{Reason: ReasonInvalidRequest, Op: op, Detail: strings.Join(details, "; "), Faults: faults}
}
