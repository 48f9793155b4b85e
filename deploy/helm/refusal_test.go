//go:build chart

package main

import (
	"strings"
	"testing"
)

// TestChart_saysWhatIsMissing wants an install that could not work to fail, and to say why.
func TestChart_saysWhatIsMissing(t *testing.T) {
	for values, want := range map[string]string{
		"config: {kvm2: {hosts: []}}":              "config.kvm2.hosts is empty",
		"ssh: {existingSecret: ''}":                "ssh.existingSecret is missing: beelink names no sshKeyFile",
		"ssh: {existingSecret: '', privateKey: a}": "ssh.knownHosts is missing: beelink names no knownHostsFile",
		"ssh: {privateKey: a}":                     "two ways to say one thing",
		"ssh: {knownHosts: a}":                     "two ways to say one thing",
		"ssh: {existingSecret: '', privateKey: a, knownHosts: b, passphraseKey: c}": "ssh.passphraseKey needs ssh.existingSecret",
		"auth: {token: {enabled: false}}":                                           "nobody could call",
		"tls: {certManager: {enabled: true, issuerRef: {name: a}}}":                 "tls.certManager.enabled needs tls.enabled",
		"tls: {enabled: true, certManager: {enabled: true}}":                        "tls.certManager.issuerRef.name is missing",
		"ports: {api: 9090}":                                  "ports.api and ports.admin are both 9090",
		"httpRoute: {enabled: true}":                          "httpRoute.parentRefs is empty",
		"fullnameOverride: Kvm2d":                             "Kvm2d is no name for a Service",
		"fullnameOverride: 1a":                                "1a is no name for a Service",
		"nameOverride: a.b":                                   "kvm2d-a.b is no name for a Service",
		"tls: {enabled: true}":                                "tls.enabled needs tls.existingSecret",
		"config: {server: {auth: {clientCert: {allow: []}}}}": "needs tls.enabled and tls.clientCASecret",
		"{config: {server: {auth: {clientCert: {}}}}, tls: {clientCASecret: a}}": "needs tls.enabled and tls.clientCASecret",
		"terminationGracePeriodSeconds: 94":                                      "the daemon needs 95",
		"resources: {limits: {memory: 128Mi}}":                                   "at least 128 are needed",
		"metrics: {service: {enabled: false}, serviceMonitor: {enabled: true}}":  "metrics.serviceMonitor needs metrics.service",
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			_, err := template(t, newestKubernetes, read(t, leastValues), values)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
	if _, err := template(t, newestKubernetes); err == nil || !strings.Contains(err.Error(), "config.kvm2.hosts is empty") {
		t.Errorf("without values: got %v, want a word on hosts", err)
	}
}

// TestChart_takesEveryNameOfARelease, also those that YAML takes for something else, and those with dots.
func TestChart_takesEveryNameOfARelease(t *testing.T) {
	for release, want := range map[string]string{
		"true":      "Service/true-kvm2d",
		"kvm2d.a.b": "Service/kvm2d-a-b",
		"1e3":       "Service/named",
	} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			values := []string{read(t, "kvm2d/ci/full-values.yaml")}
			if release == "1e3" {
				values = append(values, "fullnameOverride: named")
			}
			text, err := run(t, release, "kvm2d", newestKubernetes, values...)
			if err != nil {
				t.Fatal(err)
			}
			out := decode(t, text)
			if out[want] == nil {
				t.Errorf("there is no %s", want)
			}
			for name, object := range out {
				if got := find(t, object, "/metadata/labels/app.kubernetes.io~1instance"); got != release {
					t.Errorf("%s: got instance %#v", name, got)
				}
			}
		})
	}
}
