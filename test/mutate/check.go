package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// ruleCounts is how many rules each chapter of the contract has.
var ruleCounts = map[string]int{"I": 5, "C": 10, "G": 6, "D": 5, "L": 4, "H": 3, "E": 5, "S": 3}

const (
	namedBegin = "<!-- named tests -->"
	tableBegin = "<!-- breaks -->"
	tableEnd   = "<!-- end -->"
)

// checkAll holds the entries against the code, the contract's rules, and the
// document: each entry fits, each rule is broken, each named test is to turn
// red, and the document's table is that of the entries.
func checkAll(root, doc string, breaks []entry) error {
	var errs []error
	broken := map[string]bool{}
	red := map[string]bool{}
	for _, b := range breaks {
		broken[b.rule] = true
		if _, err := b.broken(root); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", b.rule, b.title, err))
		}
		for _, t := range b.red {
			for _, name := range t.names {
				red[name] = true
				if err := exists(filepath.Join(root, t.folder), name); err != nil {
					errs = append(errs, fmt.Errorf("%s %s: %w", b.rule, b.title, err))
				}
			}
		}
	}
	for _, chapter := range slices.Sorted(maps.Keys(ruleCounts)) {
		for n := range ruleCounts[chapter] {
			if rule := fmt.Sprintf("%s%d", chapter, n+1); !broken[rule] {
				errs = append(errs, fmt.Errorf("no break of rule %s", rule))
			}
		}
	}
	named, table, err := readDoc(doc)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, name := range named {
		if !red[name] {
			errs = append(errs, fmt.Errorf("no break turns %s red", name))
		}
	}
	if table != tableOf(breaks) {
		errs = append(errs, fmt.Errorf("the table of %s is not that of the breaks: run with -write", filepath.Base(doc)))
	}
	return errors.Join(errs...)
}

// exists reports a test that its package does not have.
func exists(folder, name string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if bytes.Contains(content, []byte("\nfunc "+name+"(")) {
			return nil
		}
	}
	return fmt.Errorf("%s has no %s", folder, name)
}

var testRE = regexp.MustCompile(`\bTest[A-Za-z0-9]+_[A-Za-z0-9_]+`)

// readDoc returns the tests that the document names for the rules, and its table.
func readDoc(doc string) (named []string, table string, err error) {
	content, err := os.ReadFile(doc)
	if err != nil {
		return nil, "", err
	}
	_, rest, ok := strings.Cut(string(content), namedBegin)
	rules, rest, ok2 := strings.Cut(rest, tableBegin+"\n")
	table, _, ok3 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 || !ok3 {
		return nil, "", fmt.Errorf("%s lacks the marks of its tables", doc)
	}
	named = testRE.FindAllString(rules, -1)
	slices.Sort(named)
	return slices.Compact(named), table, nil
}

// tableOf is the document's table of the entries.
func tableOf(breaks []entry) string {
	var b strings.Builder
	b.WriteString("| rule | the code is broken so that … | red |\n| --- | --- | --- |\n")
	for _, e := range breaks {
		var names []string
		for _, t := range e.red {
			for _, name := range t.names {
				names = append(names, "`"+name+"`")
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", e.rule, e.title, strings.Join(names, ", "))
	}
	return b.String()
}

// writeTable puts the entries' table into the document.
func writeTable(doc string, breaks []entry) error {
	_, table, err := readDoc(doc)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(doc)
	if err != nil {
		return err
	}
	content = bytes.Replace(content, []byte(tableBegin+"\n"+table), []byte(tableBegin+"\n"+tableOf(breaks)), 1)
	return os.WriteFile(doc, content, 0o644)
}
