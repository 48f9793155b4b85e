package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is one key of values.yaml, with what is below it.
type value struct {
	// Path is the way to it: image.tag. "" is the whole file.
	Path string
	// Comment stands above it, in one line.
	Comment string
	// Default is what it holds.
	Default *yaml.Node
	// Below are the keys of a mapping that is not empty, in the file's order.
	Below []value
}

// Key is the last word of the path.
func (v value) Key() string { return v.Path[strings.LastIndex(v.Path, ".")+1:] }

// readValues reads the chart's default values.
func readValues() (value, error) {
	text, err := os.ReadFile(valuesFile)
	if err != nil {
		return value{}, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return value{}, fmt.Errorf("%s: %w", valuesFile, err)
	}
	return below(value{Default: doc.Content[0]}), nil
}

// below fills in what is below v.
func below(v value) value {
	if v.Default.Kind != yaml.MappingNode {
		return v
	}
	for i := 0; i < len(v.Default.Content); i += 2 {
		key, node := v.Default.Content[i], v.Default.Content[i+1]
		path := key.Value
		if v.Path != "" {
			path = v.Path + "." + path
		}
		v.Below = append(v.Below, below(value{Path: path, Comment: plain(key.HeadComment), Default: node}))
	}
	return v
}

// plain is a comment as one line of text.
func plain(comment string) string {
	lines := strings.Split(comment, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(line, "#"))
	}
	return strings.Join(lines, " ")
}

// hints say of values what their defaults do not tell.
type hints struct {
	// Definitions are schemas that others refer to, by name.
	Definitions map[string]any `yaml:"definitions"`
	// Values are schemas of single values, by path. They add to what the default tells.
	Values map[string]map[string]any `yaml:"values"`
}

func readHints(file string) (hints, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return hints{}, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	var h hints
	if err := dec.Decode(&h); err != nil {
		return hints{}, fmt.Errorf("%s: %w", file, err)
	}
	return h, nil
}

// leaf reports whether v is set as a whole: it has nothing below it, or a hint
// says what may be there.
func (h hints) leaf(v value) bool {
	_, whole := h.Values[v.Path]["$ref"]
	return len(v.Below) == 0 || whole
}

// leaves are the values below v that are set as a whole, in the file's order.
func (h hints) leaves(v value) []value {
	if h.leaf(v) {
		return []value{v}
	}
	var out []value
	for _, b := range v.Below {
		out = append(out, h.leaves(b)...)
	}
	return out
}
