package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// vocabulary is what pages may call by name, in code type: make's targets,
// kvm2d's sub-commands, keys of the configuration, metrics.
type vocabulary map[string]bool

// A source tells where names are said, and how. The configuration's keys are
// those of the reference.
var sources = []struct{ glob, pattern, prefix string }{
	{"Makefile", `(?m)^([a-z0-9-]+):`, "make "},
	{"cmd/kvm2d/*.go", `\bUse: +"([a-z-]+)`, "kvm2d "},
	{"docs/operations/monitoring.md", "`(kvm2d_[a-z_]+)`", ""},
}

// namedRE finds a name at the start of a code span.
var namedRE = regexp.MustCompile("^`+(?:[$] )?((?:make|kvm2d) [a-z][a-z0-9-]*|kvm2d_[a-z_]+|(?:server|timeouts|limits|kvm2\\.(?:owner|hosts|images|sizes|placements))(?:\\.[A-Za-z0-9]+|\\[\\])*)")

// readVocabulary collects the names. Completion and help come with the command line's library.
func readVocabulary(root string) (vocabulary, error) {
	v := vocabulary{"kvm2d help": true, "kvm2d completion": true}
	for _, s := range sources {
		files, err := filepath.Glob(filepath.Join(root, s.glob))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for _, m := range regexp.MustCompile(s.pattern).FindAllSubmatch(text, -1) {
				v[s.prefix+string(m[1])] = true
			}
		}
	}
	table, err := reference()
	if err != nil {
		return nil, err
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(table, -1) {
		v[m[1]] = true
		block, _, _ := strings.Cut(m[1], ".NAME.")
		v[block+".NAME"] = true
	}
	return v, nil
}

// checkNames finds what is called by a name that nothing has.
func (p *page) checkNames(v vocabulary) []finding {
	var found []finding
	for _, l := range p.prose {
		for _, span := range codeSpanRE.FindAllString(l.text, -1) {
			if m := namedRE.FindStringSubmatch(span); m != nil && !v[m[1]] {
				found = append(found, finding{p.path, l.number, fmt.Sprintf("there is no %s", m[1])})
			}
		}
	}
	return found
}
