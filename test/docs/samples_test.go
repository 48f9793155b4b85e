package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/client"
	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/client/example"
)

// sample reads a file of docs/operator into out, strictly.
func sample(t *testing.T, name string, out any) {
	t.Helper()
	text := read(t, "docs/operator/"+name)
	dec := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	dec.KnownFields(true)
	if err := dec.Decode(out); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type objectMeta struct{ Name, Namespace string }

// entry is provider-entry.yaml.
type entry struct {
	Providers []struct {
		Name, Type string
		KVM2       example.Entry `yaml:"kvm2"`
	}
}

// deployment is manager_kvm2_patch.yaml.
type deployment struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   objectMeta
	Spec       struct{ Template struct{ Spec podSpec } }
}

type podSpec struct {
	Containers []struct {
		Name         string
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
			ReadOnly  bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	}
	Volumes []struct {
		Name   string
		Secret struct {
			SecretName string `yaml:"secretName"`
		}
		ConfigMap struct{ Name string } `yaml:"configMap"`
	}
}

// TestSamples_fitTogether: the entry connects, and its token file is the key of the Secret that the patch mounts.
func TestSamples_fitTogether(t *testing.T) {
	var e entry
	sample(t, "provider-entry.yaml", &e)
	provider := e.Providers[0].KVM2
	proxies, err := provider.Connect("cluster-a")
	if err != nil {
		t.Fatal(err)
	}
	proxies.Provider.Close()

	var d deployment
	sample(t, "manager_kvm2_patch.yaml", &d)
	var secret struct {
		APIVersion string `yaml:"apiVersion"`
		Kind, Type string
		Metadata   objectMeta
		StringData map[string]string `yaml:"stringData"`
	}
	sample(t, "secret.yaml", &secret)
	pod := d.Spec.Template.Spec
	if got := pod.Volumes[0].Secret.SecretName; got != secret.Metadata.Name {
		t.Errorf("the patch mounts the Secret %s, the sample is %s", got, secret.Metadata.Name)
	}
	mount := pod.Containers[0].VolumeMounts[0]
	if got, want := filepath.Dir(provider.TokenFile), mount.MountPath; got != want || mount.Name != pod.Volumes[0].Name {
		t.Errorf("the token is looked for in %s and mounted at %s", got, want)
	}
	if _, ok := secret.StringData[filepath.Base(provider.TokenFile)]; !ok {
		t.Errorf("the Secret has no key %s", filepath.Base(provider.TokenFile))
	}
	if d.Metadata.Namespace != secret.Metadata.Namespace {
		t.Errorf("Secret in %s, Deployment in %s", secret.Metadata.Namespace, d.Metadata.Namespace)
	}
}

// TestSamples_kustomization: each file that it names is there, and the ConfigMap is the one that the patch mounts.
func TestSamples_kustomization(t *testing.T) {
	var k struct {
		APIVersion         string `yaml:"apiVersion"`
		Kind, Namespace    string
		Resources          []string
		ConfigMapGenerator []struct {
			Name  string
			Files []string
		} `yaml:"configMapGenerator"`
		GeneratorOptions struct {
			DisableNameSuffixHash bool `yaml:"disableNameSuffixHash"`
		} `yaml:"generatorOptions"`
	}
	sample(t, "kustomization.yaml", &k)
	for _, name := range slices.Concat(k.Resources, k.ConfigMapGenerator[0].Files) {
		if _, err := os.Stat(filepath.Join("../../docs/operator", name)); err != nil {
			t.Error(err)
		}
	}
	var d deployment
	sample(t, "manager_kvm2_patch.yaml", &d)
	if got, want := d.Spec.Template.Spec.Volumes[1].ConfigMap.Name, k.ConfigMapGenerator[0].Name; got != want {
		t.Errorf("the patch mounts the ConfigMap %s, the kustomization makes %s", got, want)
	}
}

// TestSamples_fitTheChart: the entry's URL is that of the chart's Service, and the proxy's placement is the entry's.
func TestSamples_fitTheChart(t *testing.T) {
	var e entry
	sample(t, "provider-entry.yaml", &e)
	var values struct{ Service struct{ Port int } }
	if err := yaml.Unmarshal([]byte(read(t, "deploy/helm/kvm2d/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	if got, want := e.Providers[0].KVM2.Server, fmt.Sprintf("http://kvm2d.kvm2d.svc:%d", values.Service.Port); got != want {
		t.Errorf("got the server %s, want %s", got, want)
	}
	var proxy struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   objectMeta
		Spec       struct{ Provider, Placement string }
	}
	sample(t, "proxy_kvm2.yaml", &proxy)
	if proxy.Spec.Provider != e.Providers[0].Name || proxy.Spec.Placement != e.Providers[0].KVM2.Placement {
		t.Errorf("the proxy asks for %+v, the entry is %+v", proxy.Spec, e.Providers[0])
	}
}

// TestSamples_providerTable: the column has the axes and answers of the specification.
func TestSamples_providerTable(t *testing.T) {
	rows := func(page, head string) []string {
		_, table, ok := strings.Cut(read(t, page), head)
		if !ok {
			t.Fatalf("%s has no table %q", page, head)
		}
		table, _, _ = strings.Cut(table, "\n\n")
		var rows []string
		for _, m := range regexp.MustCompile(`(?m)^\| ([a-z-]+) \| ([a-z-]+) \|`).FindAllStringSubmatch(table, -1) {
			rows = append(rows, m[1]+": "+m[2])
		}
		return rows
	}
	want := rows("docs/kvm2-provider-spec.md", "| axis | answer |")
	got := rows("docs/operator/provider-table.md", "| axis | kvm2 |")
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 16 {
		t.Errorf("axes (-want +got):\n%s", diff)
	}
}

// TestHealth_pagesHaveEveryDetailAndReason: what pages and comments say of health is what the client's types say.
func TestHealth_pagesHaveEveryDetailAndReason(t *testing.T) {
	var words []string
	for f := range reflect.TypeFor[client.HostDetails]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		words = append(words, name)
	}
	_, description, _ := strings.Cut(read(t, "api/openapi.yaml"), "    HostHealth:\n")
	reasons := regexp.MustCompile(`Ready, Unreachable,[^.]*?Maintenance`).FindString(description)
	words = append(words, regexp.MustCompile(`[A-Z]\w+`).FindAllString(reasons, -1)...)
	if len(words) != 11+13 {
		t.Fatalf("got %d details and reasons: %v", len(words), words)
	}
	for _, page := range []string{"docs/kvm2-provider.md", "docs/operator/health-comment.go.txt"} {
		text := read(t, page)
		for _, word := range words {
			if !regexp.MustCompile(`\b` + word + `\b`).MatchString(text) {
				t.Errorf("%s does not say %s", page, word)
			}
		}
	}
}
