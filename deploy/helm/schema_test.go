//go:build chart

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// free are the mappings in which any key is good: labels and the like, names that
// users choose, and parts of Kubernetes that its API server has to judge.
var free = regexp.MustCompile(`([lL]abels|[aA]nnotations|nodeSelector|matchExpressions|` +
	`kvm2\.(images|sizes|placements)|affinity\.nodeAffinity.*|extraVolumes\.0\.configMap|` +
	`(extra|init)Containers\.0\.securityContext.*)$`)

// TestSchema_refusesMistypedKeys puts a key that does not exist into every mapping
// of every set of test values, and of values.yaml itself.
func TestSchema_refusesMistypedKeys(t *testing.T) {
	files := append(valueSets(t), valuesFile)
	tried := map[string]bool{}
	for _, file := range files {
		var values any
		if err := yaml.Unmarshal([]byte(read(t, file)), &values); err != nil {
			t.Fatal(err)
		}
		for _, path := range mappings(values, nil) {
			name := strings.Join(path, ".")
			if tried[name] || free.MatchString(name) {
				continue
			}
			tried[name] = true
			t.Run(filepath.Base(file)+"/"+name, func(t *testing.T) {
				t.Parallel()
				_, err := template(t, newestKubernetes, read(t, leastValues), misspelt(t, file, path))
				if err == nil || !strings.Contains(err.Error(), "misspelt") {
					t.Errorf("got %v, want a word on the key", err)
				}
			})
		}
	}
	if len(tried) < 60 {
		t.Errorf("got %d mappings, want more", len(tried))
	}
}

// mappings returns the paths of all mappings in v; an index is a word too.
func mappings(v any, path []string) [][]string {
	var out [][]string
	switch node := v.(type) {
	case map[string]any:
		out = append(out, path)
		for key, inner := range node {
			out = append(out, mappings(inner, append(slices.Clone(path), key))...)
		}
	case []any:
		for i, inner := range node {
			out = append(out, mappings(inner, append(slices.Clone(path), fmt.Sprint(i)))...)
		}
	}
	return out
}

// misspelt is the file's YAML with a key misspelt in the mapping at path.
func misspelt(t *testing.T, file string, path []string) string {
	t.Helper()
	var values any
	if err := yaml.Unmarshal([]byte(read(t, file)), &values); err != nil {
		t.Fatal(err)
	}
	mapping, ok := find(t, m{"": values}, "/"+strings.Join(append([]string{""}, path...), "/")).(m)
	if !ok {
		t.Fatalf("%s has no mapping at %v", file, path)
	}
	mapping["misspelt"] = 1
	text, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// valueSets are the files of test values.
func valueSets(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("kvm2d/ci/*-values.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("got %v, %v, want the sets of test values", files, err)
	}
	return files
}

func TestSchema_refusesWrongValues(t *testing.T) {
	for values, want := range map[string]string{
		"replicaCount: two":                                "replicaCount",
		"image: {tag: 1.0}":                                "tag",
		"image: {digest: abc}":                             "digest",
		"log: {level: loud}":                               "level",
		"podSecurityContext: {runAsUser: 0}":               "runAsUser",
		"ports: {api: 80}":                                 "api",
		"resources: {limits: {memory: 1.5Gi}}":             "memory",
		"config: {server: {listen: ':8080'}}":              "listen",
		"config: {server: {auth: {token: {file: a}}}}":     "token",
		"config: {timeouts: {drain: soon}}":                "drain",
		"config: {kvm2: {sizes: {small: {memoryMiB: 1}}}}": "memoryMiB",
		"extraVolumes: [{name: a, secrets: {}}]":           "secrets",
		"tolerations: [{effect: Never}]":                   "effect",
		"commonLabels: {a: 1}":                             "commonLabels",
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			_, err := template(t, newestKubernetes, read(t, leastValues), values)
			if err == nil || !strings.Contains(err.Error(), "don't meet the specifications of the schema") || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want a word on %s", err, want)
			}
		})
	}
}

// TestSchema_nullIsRefusedOrFine sets each value to null, which takes it out:
// what the chart needs is missed by name, the rest renders. An empty key in a
// file of values is such a null.
func TestSchema_nullIsRefusedOrFine(t *testing.T) {
	values, err := readValues()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all(values) {
		t.Run(v.Path, func(t *testing.T) {
			t.Parallel()
			_, err := template(t, newestKubernetes, read(t, leastValues), nested(t, v.Path, nil))
			if err == nil {
				return
			}
			for _, word := range []string{"missing property '" + v.Key() + "'", v.Path + " is empty", v.Path + " is missing"} {
				if strings.Contains(err.Error(), word) {
					return
				}
			}
			t.Errorf("got %v, want it refused by name, or to render", err)
		})
	}
}

// all are the values below v.
func all(v value) []value {
	var out []value
	for _, b := range v.Below {
		out = append(append(out, b), all(b)...)
	}
	return out
}

// TestTemplates_useOnlyValuesThatExist finds what a template asks for and nobody can set.
func TestTemplates_useOnlyValuesThatExist(t *testing.T) {
	values, err := readValues()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, v := range all(values) {
		known[v.Path] = true
	}
	used := regexp.MustCompile(`\.Values\.([A-Za-z0-9.]+)`)
	n := 0
	err = filepath.WalkDir("kvm2d/templates", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		for _, match := range used.FindAllStringSubmatch(read(t, path), -1) {
			if n++; !known[match[1]] {
				t.Errorf("%s: there is no value %s", path, match[1])
			}
		}
		return nil
	})
	if err != nil || n < 80 {
		t.Errorf("got %v and %d uses of values, want more", err, n)
	}
}

// TestGenerate_isUpToDate holds the chart to what generate makes.
func TestGenerate_isUpToDate(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(name); err != nil || string(got) != string(want) {
			t.Errorf("%s is not up to date (%v): run make generate", name, err)
		}
	}
}
