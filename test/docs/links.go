package main

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// linkCount is how many links were checked.
type linkCount struct {
	inside  int // files and anchors, which must exist
	outside int // URLs, which must be well-formed
}

var (
	codeSpanRE = regexp.MustCompile("`+[^`]+`+")
	linkRE     = regexp.MustCompile(`\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+(?:\([^()\s]*\))?)\)`)
	definedRE  = regexp.MustCompile(`^ {0,3}\[[^\]]+\]: +(\S+)`)
	autoRE     = regexp.MustCompile(`<((?:https?|mailto):[^>\s]*)>`)
)

// linkText replaces each link in s by its text.
func linkText(s string) string { return linkRE.ReplaceAllString(s, "$1") }

// checkLinks follows every link of p. pages are all pages by path.
func (p *page) checkLinks(root string, pages map[string]*page) (linkCount, []finding) {
	var count linkCount
	var found []finding
	for _, l := range p.prose {
		for _, target := range linksOf(l.text) {
			inside, err := checkLink(root, p.path, target, pages)
			if inside {
				count.inside++
			} else {
				count.outside++
			}
			if err != nil {
				found = append(found, finding{p.path, l.number, fmt.Sprintf("link %s: %v", target, err)})
			}
		}
	}
	return count, found
}

func linksOf(text string) []string {
	// Of a link whose text is code only the code goes.
	text = codeSpanRE.ReplaceAllString(text, "``")
	var targets []string
	for _, re := range []*regexp.Regexp{linkRE, definedRE, autoRE} {
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			targets = append(targets, m[len(m)-1])
		}
	}
	return targets
}

// checkLink reports whether target is inside the project, and what is wrong with it.
func checkLink(root, from, target string, pages map[string]*page) (inside bool, err error) {
	u, err := url.Parse(target)
	if err != nil {
		return false, err
	}
	if u.Scheme != "" {
		return false, checkURL(u)
	}
	file := from
	if u.Path != "" {
		file = path.Join(path.Dir(from), u.Path)
	}
	if path.IsAbs(u.Path) || file == ".." || strings.HasPrefix(file, "../") {
		return true, fmt.Errorf("leads out of the project")
	}
	info, err := os.Stat(filepath.Join(root, file))
	if err != nil {
		return true, fmt.Errorf("there is no %s", file)
	}
	if strings.HasSuffix(u.Path, "/") && !info.IsDir() {
		return true, fmt.Errorf("%s is no folder", file)
	}
	if u.Fragment == "" {
		return true, nil
	}
	to, ok := pages[file]
	if !ok {
		return true, fmt.Errorf("%s is no page that has anchors", file)
	}
	if !to.anchors[u.Fragment] {
		return true, fmt.Errorf("%s has no heading #%s", file, u.Fragment)
	}
	return true, nil
}

const unreached = "no link leads here from README.md"

// checkReached finds pages that no link leads to, from README on. A link to a
// folder leads to the pages in it.
func checkReached(pages map[string]*page) []finding {
	reached := map[string]bool{}
	for next := []string{"README.md"}; len(next) > 0; {
		here := next[0]
		next = next[1:]
		p, ok := pages[here]
		if !ok || reached[here] {
			continue
		}
		reached[here] = true
		for _, l := range p.prose {
			for _, target := range linksOf(l.text) {
				file, _, _ := strings.Cut(target, "#")
				file = path.Join(path.Dir(here), file)
				next = append(next, file)
				for name := range pages {
					if path.Dir(name) == file {
						next = append(next, name)
					}
				}
			}
		}
	}
	var found []finding
	for name := range pages {
		if !reached[name] {
			found = append(found, finding{name, 0, unreached})
		}
	}
	return found
}

// checkURL looks at the form of a link that leaves the project.
func checkURL(u *url.URL) error {
	switch {
	case u.Scheme == "mailto":
		return nil
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("scheme %s", u.Scheme)
	case !strings.Contains(u.Hostname(), "."):
		return fmt.Errorf("no host name")
	case u.User != nil:
		return fmt.Errorf("has credentials")
	default:
		return nil
	}
}
