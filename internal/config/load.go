package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxFileBytes is far above any real configuration; a bigger file is a mistake.
const maxFileBytes = 1 << 20

// Load reads and checks the file at path. Warnings are what an operator should
// know and may want. A file that cannot be read gives the error of the file
// system; one that is wrong gives a *FaultsError with every fault.
func Load(path string) (cfg *Config, warnings []Fault, err error) {
	data, err := Read(path)
	if err != nil {
		return nil, nil, err
	}
	return Parse(path, data)
}

// Read returns the content of the file at path, or the error of the file system.
func Read(path string) ([]byte, error) {
	data, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return data, nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s: larger than %d bytes", path, maxFileBytes)
	}
	return data, nil
}

// Parse checks data, the content of a configuration file; name is for messages.
func Parse(name string, data []byte) (*Config, []Fault, error) {
	rep := newReport()
	cfg := Default()
	if root := rep.document(data); root != nil {
		d := &decoder{report: rep}
		d.root(root, &cfg)
		validate(&cfg, rep)
	}
	if faults := rep.sorted(); len(faults) > 0 {
		return nil, nil, &FaultsError{File: name, Faults: faults}
	}
	cfg.lineOf = rep.lineOf
	return &cfg, warn(&cfg, rep), nil
}

// document parses data into the nodes of its only document; nil after a fault.
func (r *report) document(data []byte) *yaml.Node {
	if !utf8.Valid(data) {
		r.unreadable("", lineOfInvalid(data), "not UTF-8 text")
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		r.unreadable("", 1, "the file is empty")
		return nil
	case err != nil:
		r.syntax(data, err)
		return nil
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		r.unreadable("", second.Line, "a second YAML document: one file holds one configuration")
		return nil
	case !errors.Is(err, io.EOF):
		r.syntax(data, err)
		return nil
	}
	return doc.Content[0]
}

// syntax reports what the YAML parser says, or the tab that it stumbled over.
func (r *report) syntax(data []byte, err error) {
	if line := lineOfTab(data); line > 0 {
		r.unreadable("", line, "a tab in the indentation: YAML wants spaces")
		return
	}
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if head, rest, ok := strings.Cut(text, ": "); ok {
		if _, scanErr := fmt.Sscanf(head, "line %d", &line); scanErr == nil {
			text = rest
		}
	}
	r.unreadable("", line, "not YAML: %s", text)
}

// lineOfTab returns the first line whose indentation holds a tab, 0 without.
func lineOfTab(data []byte) int {
	for i, line := range strings.Split(string(data), "\n") {
		text := strings.TrimLeft(line, " \t")
		if strings.Contains(line[:len(line)-len(text)], "\t") && strings.TrimSpace(text) != "" {
			return i + 1
		}
	}
	return 0
}

func lineOfInvalid(data []byte) int {
	for i, line := range bytes.Split(data, []byte("\n")) {
		if !utf8.Valid(line) {
			return i + 1
		}
	}
	return 1
}
