package main

import (
	"fmt"
	"regexp"
	"strings"
)

// mark is what the comment before a block asks for.
type mark struct {
	place  place
	why    string // of a block that is not run
	serves bool
	file   string
	sameAs string
}

// place is where a block runs: sim, lab, k8s or "host NAME"; "" is unsaid.
type place string

const (
	placeSim place = "sim"
	placeLab place = "lab"
	placeK8s place = "k8s"
)

// hostOf returns the name of the host that p means, "" when it means none.
func (p place) hostOf() string {
	name, ok := strings.CutPrefix(string(p), "host ")
	if !ok {
		return ""
	}
	return name
}

// real reports whether p needs real hosts.
func (p place) real() bool { return p == placeLab || p.hostOf() != "" }

// markRE tells a mark from any other comment.
var markRE = regexp.MustCompile(`^(run|not run|file|same as|serves)\b`)

var (
	placeRE = regexp.MustCompile(`^(sim|lab|k8s|host [a-z0-9-]+)$`)
	fileRE  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
)

// parseMark reads a comment; one that is no mark is the empty mark.
func parseMark(text string) (mark, error) {
	var m mark
	if !markRE.MatchString(text) {
		return m, nil
	}
	for part := range strings.SplitSeq(text, "; ") {
		key, value, _ := strings.Cut(part, ": ")
		switch {
		case key == "run" && placeRE.MatchString(value):
			m.place = place(value)
		case key == "not run" && value != "":
			m.why = value
		case key == "serves" && value == "":
			m.serves = true
		case key == "file" && fileRE.MatchString(value):
			m.file = value
		case key == "same as" && value != "":
			m.sameAs = value
		default:
			return mark{}, fmt.Errorf("unknown mark %q", part)
		}
	}
	if m.why != "" && (m.place != "" || m.serves) {
		return mark{}, fmt.Errorf("a block is run or not run: %s", text)
	}
	return m, nil
}
