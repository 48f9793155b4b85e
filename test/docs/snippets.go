package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
)

// checkSnippet parses a block that is data, and compares one that shows a file.
// A YAML block with the key kvm2 at its top is a configuration of kvm2d.
func checkSnippet(root string, b block) []finding {
	var errs []error
	switch b.lang {
	case "yaml", "yml":
		errs = append(errs, checkYAML([]byte(b.text)))
	case "json":
		if !json.Valid([]byte(b.text)) {
			errs = append(errs, errors.New("not JSON"))
		}
	}
	if b.mark.sameAs != "" {
		errs = append(errs, sameAs(filepath.Join(root, filepath.FromSlash(b.mark.sameAs)), b))
	}
	var found []finding
	for _, err := range errs {
		if err != nil {
			found = append(found, finding{b.page, b.number, err.Error()})
		}
	}
	return found
}

func checkYAML(text []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var doc any
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("not YAML: %w", err)
		}
		top, ok := doc.(map[string]any)
		if !ok {
			continue
		}
		if _, ok := top["kvm2"]; ok {
			_, _, err := config.Parse("configuration", text)
			return err
		}
	}
}

func sameAs(path string, b block) error {
	want, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if b.text != string(want) {
		return fmt.Errorf("not the content of %s", b.mark.sameAs)
	}
	return nil
}
