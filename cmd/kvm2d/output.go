package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"go.yaml.in/yaml/v3"
)

// outputs are the words of --output.
var outputs = []string{"table", "json", "yaml", "name"}

func checkOutput(format string) error {
	if !slices.Contains(outputs, format) {
		return fmt.Errorf("output %q: want %s", format, strings.Join(outputs, ", "))
	}
	return nil
}

// table is what people get: a head and rows of as many cells.
type table struct {
	head []string
	rows [][]string
}

// print shows v as asked for: itself as json or yaml, else t, or only the
// first column of t, which holds the names.
func (s *session) print(v any, t table) error {
	switch s.format {
	case "json":
		enc := json.NewEncoder(s.out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	case "yaml":
		return printYAML(s.out, v)
	case "name":
		for _, row := range t.rows {
			fmt.Fprintln(s.out, row[0])
		}
		return nil
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, strings.Join(t.head, "\t"))
	for _, row := range t.rows {
		for i, cell := range row {
			if row[i] = printable(cell); cell == "" {
				row[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// printYAML writes v with the keys, and in the order, that its JSON has.
func printYAML(out io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return err
	}
	plain(&doc)
	enc := yaml.NewEncoder(out)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return err
	}
	return enc.Close()
}

// plain turns JSON's braces and quotes into YAML's usual form. Empty lists and
// maps keep their brackets, and text that some reader would take for something
// else keeps its quotes.
func plain(n *yaml.Node) {
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str":
		_ = n.Encode(n.Value)
	case len(n.Content) > 0:
		n.Style = 0
	}
	for _, child := range n.Content {
		plain(child)
	}
}

// printable replaces what a terminal would obey: hosts and guests send it.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c < 0xa0 {
			return '�'
		}
		return c
	}, s)
}
