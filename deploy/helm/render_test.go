//go:build chart

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"
)

// helm is the program that tests run.
var helm string

func TestMain(m *testing.M) {
	path, err := exec.Command("../../scripts/tool", "helm").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "no helm:", err)
		os.Exit(1)
	}
	helm = strings.TrimSpace(string(path))
	goleak.VerifyTestMain(m)
}

const leastValues = "kvm2d/ci/least-values.yaml"

// newestKubernetes has all that the chart makes use of.
const newestKubernetes = "1.34.0"

// objects are what a chart renders to, by kind and name.
type objects map[string]map[string]any

// render renders the chart with the least values and then each of values, which are YAML.
func render(t *testing.T, values ...string) objects {
	t.Helper()
	out, err := template(t, newestKubernetes, append([]string{read(t, leastValues)}, values...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// template renders the chart with values for a Kubernetes version. Its error is
// what helm says.
func template(t *testing.T, kubernetes string, values ...string) (objects, error) {
	t.Helper()
	text, err := run(t, "kvm2d", "kvm2d", kubernetes, values...)
	if err != nil {
		return nil, err
	}
	return decode(t, text), nil
}

// decode reads what helm template writes.
func decode(t *testing.T, text []byte) objects {
	t.Helper()
	out := objects{}
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var object map[string]any
		switch err := dec.Decode(&object); {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			t.Fatal(err)
		case object != nil:
			metadata, _ := object["metadata"].(map[string]any)
			out[fmt.Sprintf("%v/%v", object["kind"], metadata["name"])] = object
		}
	}
}

// run runs helm template on the chart in a folder, as a release of that name.
func run(t *testing.T, release, chart, kubernetes string, values ...string) ([]byte, error) {
	t.Helper()
	args := []string{"template", release, chart, "--namespace", "egress", "--kube-version", kubernetes}
	dir := t.TempDir()
	for i, text := range values {
		file := filepath.Join(dir, strconv.Itoa(i)+".yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		// The flag takes lists, and a test's folder may have commas in its name.
		args = append(args, "--values", `"`+file+`"`)
	}
	cmd := exec.CommandContext(t.Context(), helm, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("helm template: %w: %s", err, stderr.String())
	}
	return out, nil
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// absent is what a pointer to nothing points to.
type absent struct{}

// find follows a JSON pointer into an object. Where it meets text, it goes on in
// the YAML that this is.
func find(t *testing.T, from any, pointer string) any {
	t.Helper()
	for word := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if text, ok := from.(string); ok {
			var inside any
			if err := yaml.Unmarshal([]byte(text), &inside); err != nil {
				t.Fatal(err)
			}
			from = inside
		}
		word = strings.NewReplacer("~1", "/", "~0", "~").Replace(word)
		var found bool
		switch node := from.(type) {
		case map[string]any:
			from, found = node[word]
		case []any:
			i, err := strconv.Atoi(word)
			if found = err == nil && i < len(node); found {
				from = node[i]
			}
		}
		if !found {
			return absent{}
		}
	}
	return from
}

// nested is YAML that sets the value at a path of values.yaml.
func nested(t *testing.T, path string, to any) string {
	t.Helper()
	words := strings.Split(path, ".")
	for _, word := range slices.Backward(words) {
		to = map[string]any{word: to}
	}
	text, err := yaml.Marshal(to)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
