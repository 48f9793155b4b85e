package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
)

// checkSnippet parses a block that is data.
// A YAML block with the key kvm2 at its top is a configuration of kvm2d.
func checkSnippet(b block) []finding {
	var err error
	switch b.lang {
	case "yaml":
		err = checkYAML([]byte(b.text))
	case "json":
		if !json.Valid([]byte(b.text)) {
			err = errors.New("not JSON")
		}
	}
	if err != nil {
		return []finding{{b.page, b.number, err.Error()}}
	}
	return nil
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
