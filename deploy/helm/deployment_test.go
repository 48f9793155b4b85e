//go:build chart

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDeployment_rollsOnlyForWhatIsNotReloaded wants another digest on the Pods
// for what a running daemon does not take over, and the same for what it does.
func TestDeployment_rollsOnlyForWhatIsNotReloaded(t *testing.T) {
	const digest = "/spec/template/metadata/annotations/checksum~1config"
	before := find(t, render(t)[mainName], digest)
	for values, rolls := range map[string]bool{
		"config: {kvm2: {sizes: {big: {vcpus: 8, memoryMiB: 8192}}}}":                            false,
		`config: {kvm2: {images: {other: {url: "https://a/b"}}}}`:                                false,
		"config: {kvm2: {placements: {more: {host: beelink, image: debian-13, size: small}}}}":   false,
		`config: {kvm2: {hosts: [{name: beelink, uri: "qemu+ssh://a@c/system", network: net}]}}`: false,
		"config: {kvm2: {owner: other}}":                                                         true,
		"config: {timeouts: {call: 10s}}":                                                        true,
		"config: {limits: {createsPerHost: 4}}":                                                  true,
		"config: {server: {pprof: true}}":                                                        true,
		"config: {probeInterval: 10s}":                                                           true,
		"tls: {enabled: true, existingSecret: tls}":                                              true,
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			if got := find(t, render(t, values)[mainName], digest); (got != before) != rolls {
				t.Errorf("got another digest: %v, want %v", got != before, rolls)
			}
		})
	}
}

// TestDeployment_doesWithoutAProbe that is taken out.
func TestDeployment_doesWithoutAProbe(t *testing.T) {
	if got := find(t, render(t, "livenessProbe: null")[mainName], daemon+"/livenessProbe"); got != (absent{}) {
		t.Errorf("got %v, want none", got)
	}
}

func TestDeployment_endsAfterTheDrain(t *testing.T) {
	for values, want := range map[string]int{
		"":                                                      5 + 60 + 30,
		"preStopSleepSeconds: 0":                                60 + 30,
		"config: {timeouts: {drain: 2m}}":                       5 + 120 + 30,
		"config: {timeouts: {drain: 1h}}":                       5 + 3600 + 30,
		"config: {timeouts: {drain: 1m30s}}":                    5 + 90 + 30,
		"config: {timeouts: {drain: 0}}":                        5 + 30,
		"config: {timeouts: {drain: 0s}}":                       5 + 30,
		"terminationGracePeriodSeconds: 95":                     95,
		"{terminationGracePeriodSeconds: 500, replicaCount: 2}": 500,
	} {
		if got := find(t, render(t, values)[mainName], pod+"/terminationGracePeriodSeconds"); got != want {
			t.Errorf("%s: got %v s, want %d", values, got, want)
		}
	}
	// Kubernetes 1.29 has no preStop.sleep.
	out, err := template(t, "1.29.3", read(t, leastValues))
	if err != nil {
		t.Fatal(err)
	}
	if got := find(t, out[mainName], daemon+"/lifecycle"); got != (absent{}) {
		t.Errorf("got %v, want no preStop", got)
	}
	if got := find(t, out[mainName], pod+"/terminationGracePeriodSeconds"); got != 90 {
		t.Errorf("got %v s, want 90", got)
	}
}

func TestDeployment_tellsGoItsMemory(t *testing.T) {
	for values, want := range map[string]any{
		"":                                   "403MiB", // (512 - 64) * 0.9
		"resources: {limits: {memory: 1Gi}}": "864MiB",
		"resources: {limits: {memory: 2G}}":  "1658MiB",
		"resources: {limits: {memory: 536870912}}":                        "403MiB",
		"{resources: {limits: {memory: 512Mi}}, tmp: {sizeLimit: 128Mi}}": "345MiB",
	} {
		if got := find(t, render(t, values)[mainName], daemon+"/env/0/value"); got != want {
			t.Errorf("%s: got GOMEMLIMIT %v, want %v", values, got, want)
		}
	}
	if got := find(t, render(t, "resources: {limits: {memory: null}}")[mainName], daemon+"/env/0/name"); got == "GOMEMLIMIT" {
		t.Error("got a GOMEMLIMIT without a limit")
	}
}

// TestDeployment_clientFindsItsDaemon wants the client in the image to need no flags where it runs.
func TestDeployment_clientFindsItsDaemon(t *testing.T) {
	for values, want := range map[string]m{
		"":                   {"KVM2D_SERVER": "http://127.0.0.1:8080", "KVM2D_TOKEN_FILE": "/etc/kvm2d/auth/token"},
		"ports: {api: 7777}": {"KVM2D_SERVER": "http://127.0.0.1:7777", "KVM2D_TOKEN_FILE": "/etc/kvm2d/auth/token"},
		secure: {
			"KVM2D_SERVER": "https://kvm2d.egress.svc:8080", "KVM2D_TOKEN_FILE": "/etc/kvm2d/auth/token", "KVM2D_CA_FILE": "/etc/kvm2d/tls/ca.crt",
		},
		"{auth: {token: {enabled: false}}, config: {server: {auth: {tokenReview: {}}}}}": {"KVM2D_SERVER": "http://127.0.0.1:8080"},
	} {
		got := m{}
		variables, _ := find(t, render(t, values)[mainName], daemon+"/env").([]any)
		for _, v := range variables {
			variable, _ := v.(m)
			if name, _ := variable["name"].(string); strings.HasPrefix(name, "KVM2D_") {
				got[name] = variable["value"]
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", values, diff)
		}
	}
}

// TestDeployment_spreadsItsPods wants the selector filled in only where there is none.
func TestDeployment_spreadsItsPods(t *testing.T) {
	const selector = pod + "/topologySpreadConstraints/0/labelSelector"
	if diff := cmp.Diff(find(t, render(t)[mainName], "/spec/selector"), find(t, render(t)[mainName], selector)); diff != "" {
		t.Errorf("selector (-of the Deployment +got):\n%s", diff)
	}
	own := "topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]"
	if diff := cmp.Diff(m{"matchLabels": m{"a": "b"}}, find(t, render(t, own)[mainName], selector)); diff != "" {
		t.Errorf("own selector (-want +got):\n%s", diff)
	}
}
