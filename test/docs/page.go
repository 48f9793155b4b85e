package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// page is one Markdown file, taken apart.
type page struct {
	path    string // from the root of the project
	text    string
	prose   []line // what is not in a fence and not in a comment
	blocks  []block
	anchors map[string]bool
}

// line is a line of a page, counted from 1.
type line struct {
	number int
	text   string
}

// block is a fenced block.
type block struct {
	page   string
	number int // of the line that opens the fence
	lang   string
	text   string // with a line end after each line
	mark   mark
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.page, b.number) }

// languages are those of blocks. Each block has one, so that no command hides in a block of none.
var languages = map[string]bool{
	"sh": true, "bash": true, "console": true, "yaml": true, "json": true, "xml": true, "go": true, "text": true,
}

// shell reports whether b is for a shell.
func (b block) shell() bool {
	switch b.lang {
	case "sh", "bash", "console":
		return true
	default:
		return false
	}
}

// finding is something wrong with a page.
type finding struct {
	page   string
	number int // 0 when no line is to blame
	text   string
}

func (f finding) String() string {
	if f.number == 0 {
		return f.page + ": " + f.text
	}
	return fmt.Sprintf("%s:%d: %s", f.page, f.number, f.text)
}

var (
	fenceRE   = regexp.MustCompile("^( *)(```+|~~~+) *([A-Za-z0-9_+-]*)[^`]*$")
	headingRE = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)
	commentRE = regexp.MustCompile(`^ *<!-- (.*) -->$`)
)

// parsePage takes text apart. A fence that does not end and a mark that nobody
// knows are findings.
func parsePage(path, text string) (*page, []finding) {
	p := &page{path: path, text: text, anchors: map[string]bool{}}
	var found []finding
	lines := strings.Split(text, "\n")
	comment := line{} // the last one, while nothing but empty lines follows it
	for i := 0; i < len(lines); i++ {
		at := line{number: i + 1, text: lines[i]}
		if m := fenceRE.FindStringSubmatch(at.text); m != nil {
			b, end, err := fenced(lines, i, m)
			if err == nil && !languages[b.lang] {
				err = fmt.Errorf("a block's language is one of %s", strings.Join(slices.Sorted(maps.Keys(languages)), ", "))
			}
			if err == nil {
				b.mark, err = parseMark(comment.text)
			}
			if err != nil {
				found = append(found, finding{path, at.number, err.Error()})
			}
			b.page = path
			p.blocks = append(p.blocks, b)
			i, comment = end, line{}
			continue
		}
		if m := commentRE.FindStringSubmatch(at.text); m != nil {
			found = append(found, p.stray(comment)...)
			comment = line{at.number, m[1]}
			continue
		}
		if strings.TrimSpace(at.text) != "" {
			found = append(found, p.stray(comment)...)
			comment = line{}
		}
		if m := headingRE.FindStringSubmatch(at.text); m != nil {
			p.addAnchor(m[1])
		}
		p.prose = append(p.prose, at)
	}
	return p, append(found, p.stray(comment)...)
}

// stray says that a mark stands before something else than a block.
func (p *page) stray(comment line) []finding {
	if !markRE.MatchString(comment.text) {
		return nil
	}
	return []finding{{p.path, comment.number, "a mark without a block: " + comment.text}}
}

// fenced reads the block whose fence, matched as m, opens at lines[start]; end
// is the index of the closing fence.
func fenced(lines []string, start int, m []string) (b block, end int, err error) {
	b = block{number: start + 1, lang: m[3]}
	var text strings.Builder
	for end = start + 1; end < len(lines); end++ {
		body := strings.TrimPrefix(lines[end], m[1])
		if strings.TrimRight(body, " ") == m[2] {
			b.text = text.String()
			return b, end, nil
		}
		text.WriteString(body + "\n")
	}
	return b, end, fmt.Errorf("the block does not end")
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// addAnchor adds the anchor that a heading of that text gets.
func (p *page) addAnchor(heading string) {
	slug := strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(linkText(heading)), ""), " ", "-")
	name := slug
	for n := 1; p.anchors[name]; n++ {
		name = fmt.Sprintf("%s-%d", slug, n)
	}
	p.anchors[name] = true
}
