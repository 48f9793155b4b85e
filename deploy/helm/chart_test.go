//go:build chart

package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
	httpapi "gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/http"
)

// TestConfig_isOneThatTheDaemonTakes hands what the chart writes to the daemon's own reader.
func TestConfig_isOneThatTheDaemonTakes(t *testing.T) {
	for _, file := range valueSets(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			out, err := template(t, newestKubernetes, read(t, file))
			if err != nil {
				t.Fatal(err)
			}
			text, ok := find(t, out[configMap], "/data/kvm2d.yaml").(string)
			if !ok {
				t.Fatal("no configuration")
			}
			cfg, _, err := config.Parse("kvm2d.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Server.Listen != ":8080" || cfg.Server.AdminListen != ":9090" || !cfg.Server.Auth.Any() {
				t.Errorf("got %+v, want the addresses of the Services and a way to prove who one is", cfg.Server)
			}
		})
	}
}

// TestConfig_fillsInTheFilesOfHosts leaves alone what a host says of itself.
func TestConfig_fillsInTheFilesOfHosts(t *testing.T) {
	values := `
ssh: {passphraseKey: phrase}
config:
  kvm2:
    hosts:
      - {name: plain, uri: "qemu+ssh://a@b/system"}
      - {name: own, uri: "qemu+ssh://a@b/system", sshKeyFile: /k, knownHostsFile: /h}
      - {name: agent, uri: "qemu+ssh://a@b/system", agentSocket: /s, insecureIgnoreHostKey: true}
      - {name: far, uri: "qemu+ssh://a@b/system", sshKeyFile: /k, knownHostsFile: /h, jump: {uri: "ssh://a@b"}}
      - {name: here, uri: "qemu:///system"}
`
	const key, known, phrase = "/etc/kvm2d/ssh/id_ed25519", "/etc/kvm2d/ssh/known_hosts", "/etc/kvm2d/ssh/phrase"
	want := []any{
		m{"name": "plain", "uri": "qemu+ssh://a@b/system", "sshKeyFile": key, "knownHostsFile": known, "passphraseFile": phrase},
		m{"name": "own", "uri": "qemu+ssh://a@b/system", "sshKeyFile": "/k", "knownHostsFile": "/h"},
		m{"name": "agent", "uri": "qemu+ssh://a@b/system", "agentSocket": "/s", "insecureIgnoreHostKey": true},
		m{
			"name": "far", "uri": "qemu+ssh://a@b/system", "sshKeyFile": "/k", "knownHostsFile": "/h",
			"jump": m{"uri": "ssh://a@b", "sshKeyFile": key, "knownHostsFile": known, "passphraseFile": phrase},
		},
		m{"name": "here", "uri": "qemu:///system"},
	}
	got := find(t, render(t, values)[configMap], "/data/kvm2d.yaml/kvm2/hosts")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
}

// TestConfig_takesWhatTheExampleHas holds the chart's schema to the daemon's own example, less what is the chart's to set.
func TestConfig_takesWhatTheExampleHas(t *testing.T) {
	var example m
	if err := yaml.Unmarshal([]byte(read(t, "../../docs/config.example.yaml")), &example); err != nil {
		t.Fatal(err)
	}
	server, _ := example["server"].(m)
	auth, _ := server["auth"].(m)
	for _, key := range []string{"listen", "adminListen"} {
		delete(server, key)
	}
	delete(auth, "token")
	text := find(t, render(t, nested(t, "config", example))[configMap], "/data/kvm2d.yaml")
	content, _ := text.(string)
	if _, _, err := config.Parse("kvm2d.yaml", []byte(content)); err != nil {
		t.Error(err)
	}
	if got := find(t, text, "/kvm2/hosts/1/name"); got != "here" {
		t.Errorf("got the host %v, want those of the example", got)
	}
}

// TestRBAC_comesWithAnEmptyTokenReview, as the daemon takes the block for the wish.
func TestRBAC_comesWithAnEmptyTokenReview(t *testing.T) {
	out := render(t, "config: {server: {auth: {tokenReview: {}}}}")
	if out["ClusterRole/egress:kvm2d:tokenreview"] == nil || find(t, out[mainName], pod+"/automountServiceAccountToken") != true {
		t.Error("got no role or no token, want both")
	}
}

// TestChart_rendersForItsOldestKubernetes, and for none before.
func TestChart_rendersForItsOldestKubernetes(t *testing.T) {
	if _, err := template(t, "1.25.0", read(t, leastValues), read(t, "kvm2d/ci/full-values.yaml")); err != nil {
		t.Error(err)
	}
	if _, err := template(t, "1.24.17", read(t, leastValues)); err == nil || !strings.Contains(err.Error(), "kubeVersion") {
		t.Errorf("1.24: got %v, want a word on kubeVersion", err)
	}
}

// TestChart_canBePartOfAnother puts it into a chart that has values for all of its parts, which Helm hands to each.
func TestChart_canBePartOfAnother(t *testing.T) {
	parent := t.TempDir()
	if err := os.CopyFS(filepath.Join(parent, "charts", "kvm2d"), os.DirFS("kvm2d")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(parent, "Chart.yaml"), []byte("{apiVersion: v2, name: parent, version: 1.0.0}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var least m
	if err := yaml.Unmarshal([]byte(read(t, leastValues)), &least); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "kvm2d", parent, newestKubernetes, nested(t, "kvm2d", least), "{global: {a: b}, kvm2d: {enabled: true}}")
	if err != nil || !strings.Contains(string(out), "kind: Deployment") {
		t.Errorf("got %v, want it rendered", err)
	}
}

// TestSecret_tokenIsOneThatTheDaemonTakes holds both forms of the generated token together.
func TestSecret_tokenIsOneThatTheDaemonTakes(t *testing.T) {
	secret := render(t)["Secret/kvm2d-token"]
	content := map[string]string{}
	for _, key := range []string{"token", "tokens"} {
		text, _ := find(t, secret, "/data/"+key).(string)
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		content[key] = string(raw)
	}
	if !regexp.MustCompile(`^[A-Za-z0-9]{48}$`).MatchString(content["token"]) || content["tokens"] != "caller full "+content["token"]+"\n" {
		t.Errorf("got a token of %d characters, and tokens that are not it", len(content["token"]))
	}
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(content["tokens"]), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := httpapi.NewTokenFile(file, slog.New(slog.DiscardHandler)).Check(); err != nil {
		t.Error(err)
	}
}

// TestMonitoring_isThatOfItsFolders wants alerts and dashboard to arrive as they are.
func TestMonitoring_isThatOfItsFolders(t *testing.T) {
	out := render(t, "metrics: {prometheusRule: {enabled: true}, dashboard: {enabled: true}}")
	var rules any
	if err := yaml.Unmarshal([]byte(read(t, rulesFile)), &rules); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rules, find(t, out["PrometheusRule/kvm2d"], "/spec")); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	var want, got any
	text, _ := find(t, out["ConfigMap/kvm2d-dashboard"], "/data/kvm2d.json").(string)
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(read(t, boardFile)), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dashboard (-want +got):\n%s", diff)
	}
}

// TestServices_selectOnlyDaemons keeps callers from the Pod of helm test.
func TestServices_selectOnlyDaemons(t *testing.T) {
	out := render(t)
	for name, want := range map[string]bool{mainName: true, "Pod/kvm2d-test": false} {
		at := "/metadata/labels"
		if name == mainName {
			at = "/spec/template/metadata/labels"
		}
		has, _ := find(t, out[name], at).(m)
		wanted, _ := find(t, out[service], "/spec/selector").(m)
		selected := len(wanted) > 0
		for key, value := range wanted {
			selected = selected && has[key] == value
		}
		if selected != want {
			t.Errorf("the Service selects %s: %v, want %v", name, selected, want)
		}
	}
}

// TestObjects_bearTheInstance lets an uninstall be checked by one label.
func TestObjects_bearTheInstance(t *testing.T) {
	out := render(t, read(t, "kvm2d/ci/full-values.yaml"))
	if len(out) < 15 {
		t.Errorf("got %d objects, want more", len(out))
	}
	for name, object := range out {
		if got := find(t, object, "/metadata/labels/app.kubernetes.io~1instance"); got != "kvm2d" {
			t.Errorf("%s: got instance %v", name, got)
		}
	}
	if got := find(t, out[mainName], "/spec/template/metadata/labels/app.kubernetes.io~1instance"); got != "kvm2d" {
		t.Errorf("Pods: got instance %v", got)
	}
}

// TestExamples_nameWhatTheChartMakes holds the Job of the conformance suite to image, Service and Secret of a plain release.
func TestExamples_nameWhatTheChartMakes(t *testing.T) {
	var job any
	if err := yaml.Unmarshal([]byte(read(t, "../examples/conformance.yaml")), &job); err != nil {
		t.Fatal(err)
	}
	out := render(t)
	image, _ := find(t, out[mainName], daemon+"/image").(string)
	port, _ := find(t, out[service], "/spec/ports/0/port").(int)
	for pointer, want := range map[string]any{
		daemon + "/image":       strings.Replace(image, "kvm2d:", "kvm2d-conformance:", 1),
		daemon + "/env/0/value": fmt.Sprintf("http://%v:%d", find(t, out[service], "/metadata/name"), port),
		pod + "/volumes/0/projected/sources/0/secret/name":        find(t, out["Secret/kvm2d-token"], "/metadata/name"),
		pod + "/securityContext/runAsUser":                        find(t, out[mainName], pod+"/securityContext/runAsUser"),
		pod + "/volumes/0/projected/sources/0/secret/items/0/key": "token",
	} {
		if got := find(t, job, pointer); got != want {
			t.Errorf("%s: got %v, want %v", pointer, got, want)
		}
	}
}

// TestIngress_takesAnyHost, also one that YAML takes for something else.
func TestIngress_takesAnyHost(t *testing.T) {
	out := render(t, "ingress: {enabled: true, host: '*.example.net', tlsSecret: a}")["Ingress/kvm2d"]
	for _, at := range []string{"/spec/rules/0/host", "/spec/tls/0/hosts/0"} {
		if got := find(t, out, at); got != "*.example.net" {
			t.Errorf("%s: got %v", at, got)
		}
	}
}

// TestNotes_areCommands renders NOTES.txt as an object, which helm template shows.
func TestNotes_areCommands(t *testing.T) {
	chart := filepath.Join(t.TempDir(), "kvm2d")
	if err := os.CopyFS(chart, os.DirFS("kvm2d")); err != nil {
		t.Fatal(err)
	}
	object := `{{- define "notes" }}` + read(t, "kvm2d/templates/NOTES.txt") + "{{- end }}\nkind: Notes\nmetadata: {name: notes}\ntext: {{ include \"notes\" . | quote }}\n"
	if err := os.WriteFile(filepath.Join(chart, "templates", "notes.yaml"), []byte(object), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		values string
		want   []string
	}{
		{"", []string{
			"serves 1 libvirt host at http://kvm2d.egress.svc:8080\n",
			"get secret kvm2d-token -o jsonpath='{.data.token}'", "port-forward service/kvm2d 8080:8080 ",
			`curl -sS --retry 5 --retry-connrefused -H "Authorization: Bearer $token" http://localhost:8080/health`,
			"helm test kvm2d --namespace egress", "The image is localhost/kvm2d:0.1.0. No registry has it", "The token was generated",
		}},
		{"auth: {token: {enabled: false}}\n" + reviewed, []string{"create token YOUR-SERVICEACCOUNT --audience kvm2d"}},
		{"service: {port: 80}\n" + secure, []string{
			"https://kvm2d.egress.svc:80\n", "8080:80 ",
			`--cacert <(kubectl -n egress get secret tls -o jsonpath='{.data.ca\.crt}' | base64 -d) --connect-to ::localhost:8080 https://kvm2d.egress.svc:80/health`,
		}},
		{
			"{auth: {token: {enabled: false}}, tls: {enabled: true, existingSecret: tls, clientCASecret: a}, config: {server: {auth: {clientCert: {}}}}}",
			[]string{"curl -sS --retry 5 --retry-connrefused --cert YOUR.crt --key YOUR.key --cacert"},
		},
		{"tls: {enabled: true, existingSecret: tls, hasCA: false}", []string{"--insecure https://localhost:8080/health"}},
		{"hostNetwork: true", []string{"port 9090 of the node"}},
	} {
		text, err := run(t, "kvm2d", chart, newestKubernetes, read(t, leastValues), tt.values)
		if err != nil {
			t.Fatal(err)
		}
		_, notes, _ := strings.Cut(string(text), "kind: Notes\n")
		var shown struct{ Text string }
		notes, _, _ = strings.Cut(notes, "\n---")
		if err := yaml.Unmarshal([]byte(notes), &shown); err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			if !strings.Contains(shown.Text, want) {
				t.Errorf("%s: want %q in\n%s", tt.values, want, shown.Text)
			}
		}
	}
}
