package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing wrong with a configuration.
type Fault struct {
	// Path is the key's path, such as kvm2.hosts[0].uri; "" is the file itself.
	Path string
	// Line is where the key stands, or the block that lacks it; 0 when unknown.
	Line int
	// Text says what is wrong and what is wanted. It never holds a value that
	// could be a secret.
	Text string
}

// String gives "path: line N: text".
func (f Fault) String() string {
	var b strings.Builder
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	if f.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", f.Line)
	}
	b.WriteString(f.Text)
	return b.String()
}

// FaultsError holds every fault of one file, in the order of its lines.
type FaultsError struct {
	// File is the path it was read from.
	File   string
	Faults []Fault
}

// Error gives the file and one fault a line.
func (e *FaultsError) Error() string {
	lines := make([]string, 0, len(e.Faults)+1)
	lines = append(lines, fmt.Sprintf("%s: %d %s", e.File, len(e.Faults), plural(len(e.Faults), "fault")))
	for _, f := range e.Faults {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// report collects faults while one file is read, and knows where each key stands.
type report struct {
	faults []Fault
	lines  map[string]int
	// bad are the paths whose value could not be read; what they lack is not
	// reported a second time.
	bad map[string]bool
}

func newReport() *report {
	return &report{lines: make(map[string]int), bad: make(map[string]bool)}
}

// at notes the line of path.
func (r *report) at(path string, line int) { r.lines[path] = line }

// has reports whether the file gives path.
func (r *report) has(path string) bool { _, ok := r.lines[path]; return ok }

// unreadable adds a fault of decoding and keeps later checks off the path.
func (r *report) unreadable(path string, line int, format string, args ...any) {
	r.bad[path] = true
	r.faults = append(r.faults, Fault{Path: path, Line: line, Text: fmt.Sprintf(format, args...)})
}

// fault adds a fault of a value, unless it, or a block around it, could not be
// read in the first place.
func (r *report) fault(path, format string, args ...any) {
	if !r.spoilt(path) {
		r.faults = append(r.faults, Fault{Path: path, Line: r.lineOf(path), Text: fmt.Sprintf(format, args...)})
	}
}

// spoilt reports whether path or a block around it could not be read.
func (r *report) spoilt(path string) bool {
	for ; path != ""; path = parent(path) {
		if r.bad[path] {
			return true
		}
	}
	return r.bad[""]
}

// lineOf returns the line of path, or of the nearest block around it.
func (r *report) lineOf(path string) int {
	for ; path != ""; path = parent(path) {
		if line, ok := r.lines[path]; ok {
			return line
		}
	}
	return r.lines[""]
}

// parent cuts the last key or index off a path.
func parent(path string) string { return path[:max(0, strings.LastIndexAny(path, ".["))] }

// sorted returns the faults by line, those of one line by path.
func (r *report) sorted() []Fault {
	slices.SortStableFunc(r.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path))
	})
	return r.faults
}
