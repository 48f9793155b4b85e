package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
)

// The configuration reference stands between these two lines of its page.
const (
	referenceBegin = "<!-- configuration: every key of internal/config; make generate writes it -->\n"
	referenceEnd   = "<!-- end of configuration -->\n"
)

// rewrite returns text with what is made from other files made anew: blocks
// that are the same as a file, and the configuration reference.
func rewrite(root string, p *page, text string) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	for _, b := range slices.Backward(p.blocks) {
		if b.mark.sameAs == "" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(b.mark.sameAs)))
		if err != nil {
			return "", fmt.Errorf("%s: %w", b, err)
		}
		// The line of the fence is b.number, counted from 1.
		lines = slices.Replace(lines, b.number, b.number+strings.Count(b.text, "\n"), string(content))
	}
	text = strings.Join(lines, "")
	before, rest, ok := strings.Cut(text, referenceBegin)
	if !ok {
		return text, nil
	}
	_, after, ok := strings.Cut(rest, referenceEnd)
	if !ok {
		return "", fmt.Errorf("%s: the configuration has no end", p.path)
	}
	table, err := reference()
	if err != nil {
		return "", err
	}
	return before + referenceBegin + table + referenceEnd + after, nil
}

// key is what the configuration's schema says of one key or block.
type key struct {
	Description          string          `json:"description"`
	Default              any             `json:"default"`
	Minimum              *int            `json:"minimum"`
	Maximum              *int            `json:"maximum"`
	Required             []string        `json:"required"`
	Properties           map[string]key  `json:"properties"`
	AdditionalProperties json.RawMessage `json:"additionalProperties"`
	Items                *key            `json:"items"`
}

// reference is the table of all keys, from the schema that `kvm2d
// config-schema` writes, in the order of the types.
func reference() (string, error) {
	schema, err := config.Schema()
	if err != nil {
		return "", err
	}
	var root key
	if err := json.Unmarshal(schema, &root); err != nil {
		return "", fmt.Errorf("read the schema: %w", err)
	}
	var out strings.Builder
	out.WriteString("| key | default | meaning |\n| --- | --- | --- |\n")
	err = root.rows(&out, "", reflect.TypeFor[config.Config]())
	return out.String(), err
}

// rows writes the keys of block k, whose type is t, below path.
func (k key) rows(out *strings.Builder, path string, t reflect.Type) error {
	for f := range t.Fields() {
		name, ok := f.Tag.Lookup("yaml")
		if !ok {
			continue
		}
		sub, ok := k.Properties[name]
		if !ok {
			return fmt.Errorf("the schema has no %s%s", path, name)
		}
		fmt.Fprintf(out, "| `%s%s` | %s | %s |\n", path, name, sub.byDefault(name, k.Required), sub.meaning())
		below, block, suffix, err := sub.inside(f.Type)
		if err != nil {
			return err
		}
		if block.Kind() != reflect.Struct || len(below.Properties) == 0 {
			continue
		}
		if err := below.rows(out, path+name+suffix, block); err != nil {
			return err
		}
	}
	return nil
}

// inside returns the block that a key's value is, or holds, and how its keys
// are joined to the key's path.
func (k key) inside(t reflect.Type) (below key, block reflect.Type, suffix string, err error) {
	switch t.Kind() {
	case reflect.Pointer:
		return k, t.Elem(), ".", nil
	case reflect.Slice:
		return *k.Items, t.Elem(), "[].", nil
	case reflect.Map:
		if err := json.Unmarshal(k.AdditionalProperties, &below); err != nil {
			return key{}, nil, "", fmt.Errorf("read the schema: %w", err)
		}
		return below, t.Elem(), ".NAME.", nil
	default:
		return k, t, ".", nil
	}
}

func (k key) byDefault(name string, required []string) string {
	switch {
	case k.Default != nil:
		return fmt.Sprintf("`%v`", k.Default)
	case slices.Contains(required, name):
		return "needed"
	default:
		return ""
	}
}

func (k key) meaning() string {
	text := strings.ReplaceAll(k.Description, "|", `\|`)
	if k.Minimum != nil && k.Maximum != nil {
		text += fmt.Sprintf(" %d to %d.", *k.Minimum, *k.Maximum)
	}
	return text
}
