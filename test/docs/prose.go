package main

import (
	"fmt"
	"regexp"
)

// dashRE finds a hyphen that stands for a dash. One alone in a table's cell, or
// at the start of a list's item, is none.
var dashRE = regexp.MustCompile(`[^\s|] +--? +[^\s|]`)

// checkProse minds the characters: prose is US-ASCII, with two exceptions. The
// ellipsis shows what was left out of a name, and the flash is a sign of the
// troubleshooting page.
func (p *page) checkProse() []finding {
	var found []finding
	for _, l := range p.prose {
		for _, r := range l.text {
			if (r > '~' || r < ' ') && r != '…' && r != '⚡' {
				found = append(found, finding{p.path, l.number, fmt.Sprintf("character %q (%U): prose is US-ASCII", r, r)})
				break
			}
		}
		if dashRE.MatchString(codeSpanRE.ReplaceAllString(l.text, "``")) {
			found = append(found, finding{p.path, l.number, "a hyphen as a dash: make it a comma, a colon or a sentence"})
		}
	}
	return found
}
