package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The table stands between these lines of the README.
const (
	tableBegin = "<!-- values: made from values.yaml by make generate -->\n"
	tableEnd   = "<!-- end of values -->\n"
)

// withTable returns readme with the table of values written anew.
func withTable(readme []byte, values value, h hints) ([]byte, error) {
	before, rest, found := bytes.Cut(readme, []byte(tableBegin))
	_, after, ended := bytes.Cut(rest, []byte(tableEnd))
	if !found || !ended {
		return nil, errors.New("the lines around the table are missing")
	}
	var table strings.Builder
	table.WriteString("\n| value | default | what it is |\n| --- | --- | --- |\n")
	for _, leaf := range h.leaves(values) {
		text, err := defaultText(leaf.Default)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", leaf.Path, err)
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", leaf.Path, text, strings.ReplaceAll(leaf.Comment, "|", `\|`))
	}
	return bytes.Join([][]byte{before, []byte(tableBegin + table.String() + "\n" + tableEnd), after}, nil), nil
}

// defaultText shows a default in one line.
func defaultText(node *yaml.Node) (string, error) {
	var v any
	if err := node.Decode(&v); err != nil {
		return "", err
	}
	text, err := json.Marshal(v)
	return "`" + string(text) + "`", err
}
