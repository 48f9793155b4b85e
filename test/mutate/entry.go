package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// entry is one way to break a rule, and the tests that notice.
type entry struct {
	rule, title string
	// file is relative to the root; before occurs in it once and becomes after.
	file, before, after string
	red                 []tests
}

// tests are names of one folder's package.
type tests struct {
	folder string
	names  []string
}

// parse reads the entries. Each is
//
//	=== RULE title
//	in FILE
//	red FOLDER TEST…
//	---
//	text as it is
//	+++
//	text that breaks it
//
// with as many red lines as there are packages.
func parse(text string) ([]entry, error) {
	var out []entry
	for i, block := range strings.Split("\n"+text, "\n=== ")[1:] {
		e, err := parseEntry(strings.TrimRight(block, "\n"))
		if err != nil {
			return nil, fmt.Errorf("entry %d (%s): %w", i+1, strings.SplitN(block, "\n", 2)[0], err)
		}
		out = append(out, e)
	}
	return out, nil
}

func parseEntry(block string) (entry, error) {
	head, change, ok := strings.Cut(block, "\n---\n")
	var e entry
	if e.before, e.after, ok = cutChange(change, ok); !ok {
		return e, errors.New("want a part after --- and one after +++")
	}
	lines := strings.Split(head, "\n")
	e.rule, e.title, _ = strings.Cut(lines[0], " ")
	for _, line := range lines[1:] {
		switch words := strings.Fields(line); {
		case len(words) == 2 && words[0] == "in":
			e.file = words[1]
		case len(words) > 2 && words[0] == "red":
			e.red = append(e.red, tests{folder: words[1], names: words[2:]})
		default:
			return e, fmt.Errorf("cannot read %q", line)
		}
	}
	if e.file == "" || e.red == nil || e.title == "" {
		return e, errors.New("want a title, a line in and a line red")
	}
	return e, nil
}

func cutChange(change string, ok bool) (before, after string, _ bool) {
	if before, after, found := strings.Cut(change, "\n+++\n"); found && ok {
		return before, after, true
	}
	// What is only taken away leaves nothing after the mark.
	before, found := strings.CutSuffix(change, "\n+++")
	return before, "", found && ok
}

// broken returns the file with the change made.
func (e entry) broken(root string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(root, e.file))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(content, []byte(e.before)); n != 1 {
		return nil, fmt.Errorf("%s has the text to change %d times, not once", e.file, n)
	}
	return bytes.Replace(content, []byte(e.before), []byte(e.after), 1), nil
}

// run breaks the code and returns nil when every test of the entry failed.
func (e entry) run(ctx context.Context, root, dir string) error {
	content, err := e.broken(root)
	if err != nil {
		return err
	}
	overlay, err := writeOverlay(dir, filepath.Join(root, e.file), content)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range e.red {
		errs = append(errs, t.run(ctx, root, overlay))
	}
	return errors.Join(errs...)
}

// run returns nil when every one of the tests fails.
func (t tests) run(ctx context.Context, root, overlay string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-C", filepath.Join(root, t.folder), "-overlay", overlay, "-vet=off", "-ldflags=-s -w", "-count=1",
		"-timeout", "2m", "-json", "-run", "^("+strings.Join(t.names, "|")+")$", ".")
	out, err := cmd.Output()
	if err == nil {
		return fmt.Errorf("%s: no test failed", t.folder)
	}
	failed, ran, output := results(out)
	if len(ran) == 0 {
		return fmt.Errorf("%s does not build:\n%s", t.folder, output)
	}
	green := slices.DeleteFunc(slices.Clone(t.names), func(name string) bool { return slices.Contains(failed, name) })
	if len(green) > 0 {
		return fmt.Errorf("%s: green: %s", t.folder, strings.Join(green, ", "))
	}
	return nil
}

// results reads what go test -json says. A test that began and never ended,
// because of a panic or the time limit, has failed.
func results(out []byte) (failed, ran []string, output string) {
	var text strings.Builder
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var event struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			continue
		}
		text.WriteString(event.Output)
		if strings.Contains(event.Test, "/") || event.Test == "" {
			continue
		}
		switch event.Action {
		case "run":
			ran = append(ran, event.Test)
			failed = append(failed, event.Test)
		case "pass", "skip":
			failed = slices.DeleteFunc(failed, func(name string) bool { return name == event.Test })
		}
	}
	return failed, ran, text.String()
}
