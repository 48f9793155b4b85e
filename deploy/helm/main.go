// Command helm writes what is made from other files of the tree into the chart: the
// schema of its values and the table of its README from values.yaml, alerts and
// dashboard from their own folders. Run it with go generate, here.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

//go:generate go run .

// The files, as seen from this folder.
const (
	valuesFile = "kvm2d/values.yaml"
	hintsFile  = "hints.yaml"
	readmeFile = "kvm2d/README.md"
	schemaFile = "kvm2d/values.schema.json"
	rulesFile  = "../prometheus/kvm2d.rules.yaml"
	boardFile  = "../grafana/kvm2d.json"
	copiesDir  = "kvm2d/files"
)

func main() {
	files, err := generate()
	for name, content := range files {
		if err == nil {
			err = os.WriteFile(name, content, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "helm:", err)
		os.Exit(1)
	}
}

// generate returns the content of each file that is made, by name.
func generate() (map[string][]byte, error) {
	values, err := readValues()
	if err != nil {
		return nil, err
	}
	hints, err := readHints(hintsFile)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	if out[schemaFile], err = schemaOf(values, hints); err != nil {
		return nil, fmt.Errorf("%s: %w", schemaFile, err)
	}
	readme, err := os.ReadFile(readmeFile)
	if err != nil {
		return nil, err
	}
	if out[readmeFile], err = withTable(readme, values, hints); err != nil {
		return nil, fmt.Errorf("%s: %w", readmeFile, err)
	}
	for _, source := range []string{rulesFile, boardFile} {
		if out[filepath.Join(copiesDir, filepath.Base(source))], err = os.ReadFile(source); err != nil {
			return nil, err
		}
	}
	return out, nil
}
