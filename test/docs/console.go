package main

import (
	"fmt"
	"regexp"
	"strings"
)

// step is one command of a console block and what it prints.
type step struct {
	command string
	output  string
}

// parseConsole takes a console block apart.
func parseConsole(text string) ([]step, error) {
	var steps []step
	var output []string
	more := false // the command goes on
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case more:
			steps[len(steps)-1].command += "\n" + line
		case isCommand:
			if len(steps) > 0 {
				steps[len(steps)-1].output = strings.Join(output, "\n")
			}
			steps, output = append(steps, step{command: command}), nil
		case len(steps) == 0:
			return nil, fmt.Errorf("a console block begins with a command: %q", line)
		default:
			output = append(output, line)
		}
		more = (more || isCommand) && strings.HasSuffix(line, `\`)
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("a console block without a command")
	}
	steps[len(steps)-1].output = strings.Join(output, "\n")
	return steps, nil
}

// onlyReads reports whether the command may be given again until what it
// prints is what the page says: a reader is slower than a machine boots.
func (s step) onlyReads() bool {
	return readerRE.MatchString(s.command) && !writesRE.MatchString(s.command)
}

var (
	readerRE = regexp.MustCompile(`^(curl|(bin/)?kvm2d (get|list|health|images|console)) `)
	writesRE = regexp.MustCompile(` (-X|-d|--data\S*|-T|--json)\b`)
)

// volatile is what differs from one run to the next.
var volatile = []struct {
	re *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UUID"},
	{regexp.MustCompile(`\b[0-9a-f]{2}(:[0-9a-f]{2}){5}\b`), "MAC"},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "HEX"},
	{regexp.MustCompile(`SHA256:[A-Za-z0-9+/]{43}`), "FINGERPRINT"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(ms|s|GiB|MiB)\b`), "MEASURE"},
	{regexp.MustCompile(`"latencyMs":\d+`), `"latencyMs":N`},
}

// agrees reports whether got is what a page says, but for what is volatile. A
// line "..." stands for any lines.
func agrees(want, got string) bool {
	var re strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(masked(want)), "\n") {
		if strings.TrimSpace(line) == "..." {
			re.WriteString(`(?:\n[^\n]*)*`)
		} else {
			re.WriteString(`\n` + regexp.QuoteMeta(strings.TrimRight(line, " ")) + " *")
		}
	}
	return regexp.MustCompile(`^` + re.String() + `$`).MatchString("\n" + strings.TrimSpace(masked(got)))
}

func masked(s string) string {
	for _, v := range volatile {
		s = v.re.ReplaceAllString(s, v.as)
	}
	return s
}
