package config

import (
	"bytes"
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("kvm2d.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("kvm2d.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchema_takesWhatLoadTakes holds the schema against whole files.
func TestSchema_takesWhatLoadTakes(t *testing.T) {
	schema := compiledSchema(t)
	files := map[string]string{"base": base, "over SSH": sshHost}
	for _, path := range []string{"testdata/full.yaml", "testdata/least.yaml", "../../docs/config.example.yaml"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = string(text)
	}
	for name, text := range files {
		t.Run(name, func(t *testing.T) {
			if _, _, err := Parse(name, []byte(text)); err != nil {
				t.Errorf("Parse: %v", err)
			}
			if err := schema.Validate(decoded(t, text)); err != nil {
				t.Errorf("schema: %v", err)
			}
		})
	}
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchema_refuses(t *testing.T) {
	schema := compiledSchema(t)
	rows := map[string]string{
		"unknown key":       base + "server: {lissten: x}\n",
		"no kvm2":           "probeInterval: 10s\n",
		"no name":           strings.Replace(base, "name: here\n      ", "", 1),
		"upper case":        strings.Replace(base, "name: here", "name: Here", 1),
		"another driver":    withURI("xen:///system"),
		"wrong word":        base + "      domainType: xen\n",
		"number for a name": "kvm2:\n  owner: 12\n" + hostLines,
		"too large":         base + "limits: {requests: 1000000}\n",
		"too small":         base + "  sizes: {s: {vcpus: 0, memoryMiB: 64}}\n",
		"no unit":           base + "probeInterval: 30\n",
		"flag that is text": base + "      maintenance: \"yes\"\n",
		"name of an image":  base + "  images: {\"a.b\": {url: \"https://x/y\"}}\n",
		"ftp":               base + "  images: {a: {url: \"ftp://x/y\"}}\n",
		"digest":            base + "  images: {a: {url: \"https://x/y\", sha256: abc}}\n",
		"role":              base + "server: {auth: {tokenReview: {allow: [{serviceAccount: a/b, role: boss}]}}}\n",
	}
	for name, text := range rows {
		t.Run(name, func(t *testing.T) {
			if _, _, err := Parse("f", []byte(text)); err == nil {
				t.Error("Parse takes it: the row proves nothing")
			}
			if schema.Validate(decoded(t, text)) == nil {
				t.Error("the schema takes it")
			}
		})
	}
}

// TestSchema_requiredKeysAreRequired takes each required key out of a full file.
func TestSchema_requiredKeysAreRequired(t *testing.T) {
	text, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	schema := compiledSchema(t)
	tried := 0
	each := func(block map[string]any, key string, whole any) {
		kept := maps.Clone(block)
		delete(block, key)
		out, err := yaml.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := Parse("f", out); err == nil {
			t.Errorf("%s is required by its tag, and not by Load", key)
		}
		if schema.Validate(whole) == nil {
			t.Errorf("%s is required, and not by the schema", key)
		}
		maps.Copy(block, kept)
		tried++
	}
	whole := decoded(t, string(text))
	requiredKeys(reflect.TypeFor[Config](), whole, func(block map[string]any, key string) { each(block, key, whole) })
	if tried < 20 {
		t.Errorf("tried %d keys, want them all", tried)
	}
}

// requiredKeys calls found for every key in v, a value of t, that is required.
func requiredKeys(t reflect.Type, v any, found func(block map[string]any, key string)) {
	switch t.Kind() {
	case reflect.Pointer:
		requiredKeys(t.Elem(), v, found)
	case reflect.Slice:
		items, _ := v.([]any)
		for _, item := range items {
			requiredKeys(t.Elem(), item, found)
		}
	case reflect.Map:
		named, _ := v.(map[string]any)
		for _, item := range named {
			requiredKeys(t.Elem(), item, found)
		}
	case reflect.Struct:
		block, _ := v.(map[string]any)
		for f := range t.Fields() {
			key := f.Tag.Get("yaml")
			if _, given := block[key]; !given {
				continue
			}
			if f.Tag.Get("required") != "" {
				found(block, key)
			}
			requiredKeys(f.Type, block[key], found)
		}
	default: // has nothing inside
	}
}

// TestSchema_describesEveryKey holds that nobody meets a key without a word on it.
func TestSchema_describesEveryKey(t *testing.T) {
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(typ.Elem())
		case reflect.Struct:
			for f := range typ.Fields() {
				if f.Tag.Get("yaml") == "" {
					continue
				}
				if comments[typ.Name()+"."+f.Name] == "" {
					t.Errorf("%s.%s has no comment", typ.Name(), f.Name)
				}
				walk(f.Type)
			}
		default: // has nothing inside
		}
	}
	walk(reflect.TypeFor[Config]())
}
