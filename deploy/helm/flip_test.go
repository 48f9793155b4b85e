//go:build chart

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Pointers into the Deployment.
const (
	pod       = "/spec/template/spec"
	daemon    = pod + "/containers/0"
	mainName  = "Deployment/kvm2d"
	configMap = "ConfigMap/kvm2d"
	service   = "Service/kvm2d"
)

// flip is what a leaf of values.yaml stands for.
type flip struct {
	leaf string
	// to is what the leaf is set to, over the least values and with.
	to   any
	with string
	// field of object must become want; to itself, where want is nil.
	object, field string
	want          any
}

type (
	m = map[string]any
	l = []any
)

// What some leaves need beside themselves.
const (
	reviewed = "config: {server: {auth: {tokenReview: {allow: []}}}}\n"
	pasted   = "ssh: {existingSecret: '', privateKey: b, knownHosts: c}\n"
	secure   = "tls: {enabled: true, existingSecret: tls}\n"
	issued   = "tls: {enabled: true, certManager: {enabled: true, issuerRef: {name: a}}}\n"
	fenced   = "networkPolicy: {enabled: true}\n"
	scraped  = "metrics: {serviceMonitor: {enabled: true}}\n"
	alerted  = "metrics: {prometheusRule: {enabled: true}}\n"
	shown    = "metrics: {dashboard: {enabled: true}}\n"
	entered  = "ingress: {enabled: true}\n"
	routed   = "httpRoute: {enabled: true, parentRefs: [{name: a}]}\n"
)

var (
	labels    = m{"a": "b"}
	container = l{m{"name": "b", "image": "c"}}
	env       = m{"name": "A", "value": "b"}
	volume    = m{"name": "a", "emptyDir": m{}}
	mount     = m{"name": "a", "mountPath": "/a"}
	relabel   = l{m{"action": "drop"}}
)

// namingFlips are of names, configuration and what is secret.
var namingFlips = []flip{
	{leaf: "nameOverride", to: "other", object: "Deployment/kvm2d-other", field: "/kind", want: "Deployment"},
	{leaf: "fullnameOverride", to: "other", object: "Deployment/other", field: "/kind", want: "Deployment"},
	{leaf: "commonLabels", to: labels, object: configMap, field: "/metadata/labels/a", want: "b"},
	{leaf: "commonAnnotations", to: labels, object: configMap, field: "/metadata/annotations/a", want: "b"},
	{leaf: "config.kvm2.hosts", to: l{m{"name": "a", "uri": "qemu:///system", "network": "n"}}, object: configMap, field: "/data/kvm2d.yaml/kvm2/hosts"},
	{leaf: "config.kvm2.images", to: m{"debian-13": m{"url": "https://b/c"}}, object: configMap, field: "/data/kvm2d.yaml/kvm2/images"},
	{leaf: "config.kvm2.sizes", to: m{"small": m{"vcpus": 2, "memoryMiB": 64, "diskGiB": 3}}, object: configMap, field: "/data/kvm2d.yaml/kvm2/sizes"},
	{leaf: "config.kvm2.placements", to: m{"beelink": m{"host": "h", "image": "i", "size": "s"}}, object: configMap, field: "/data/kvm2d.yaml/kvm2/placements"},
	{leaf: "ssh.existingSecret", to: "a", object: mainName, field: pod + "/volumes/2/secret/secretName"},
	{leaf: "ssh.privateKeyKey", to: "a", object: configMap, field: "/data/kvm2d.yaml/kvm2/hosts/0/sshKeyFile", want: "/etc/kvm2d/ssh/a"},
	{leaf: "ssh.knownHostsKey", to: "a", object: configMap, field: "/data/kvm2d.yaml/kvm2/hosts/0/knownHostsFile", want: "/etc/kvm2d/ssh/a"},
	{leaf: "ssh.passphraseKey", to: "a", object: configMap, field: "/data/kvm2d.yaml/kvm2/hosts/0/passphraseFile", want: "/etc/kvm2d/ssh/a"},
	{leaf: "ssh.privateKey", to: "a", with: pasted, object: "Secret/kvm2d-login", field: "/data/id_ed25519", want: "YQo="},
	{leaf: "ssh.knownHosts", to: "a", with: pasted, object: "Secret/kvm2d-login", field: "/data/known_hosts", want: "YQo="},
	{leaf: "auth.token.enabled", to: false, with: reviewed, object: configMap, field: "/data/kvm2d.yaml/server/auth/token", want: absent{}},
	{leaf: "auth.token.existingSecret", to: "a", object: mainName, field: pod + "/volumes/3/secret/secretName"},
	{leaf: "tls.enabled", to: true, with: "tls: {existingSecret: tls}", object: configMap, field: "/data/kvm2d.yaml/server/tls/keyFile", want: "/etc/kvm2d/tls/tls.key"},
	{leaf: "tls.existingSecret", to: "a", with: secure, object: mainName, field: pod + "/volumes/4/secret/secretName"},
	{leaf: "tls.hasCA", to: false, with: secure, object: "Pod/kvm2d-test", field: "/spec/containers/0/args/4", want: absent{}},
	{leaf: "tls.clientCASecret", to: "a", object: mainName, field: pod + "/volumes/4/secret/secretName"},
	{leaf: "tls.certManager.enabled", to: true, with: "tls: {enabled: true, existingSecret: tls, certManager: {issuerRef: {name: a}}}", object: "Certificate/kvm2d", field: "/spec/secretName", want: "tls"},
	{leaf: "tls.certManager.issuerRef.name", to: "b", with: issued, object: "Certificate/kvm2d", field: "/spec/issuerRef/name"},
	{leaf: "tls.certManager.issuerRef.kind", to: "ClusterIssuer", with: issued, object: "Certificate/kvm2d", field: "/spec/issuerRef/kind"},
	{leaf: "tls.certManager.issuerRef.group", to: "a", with: issued, object: "Certificate/kvm2d", field: "/spec/issuerRef/group"},
	{leaf: "tls.certManager.dnsNames", to: l{"a"}, with: issued, object: "Certificate/kvm2d", field: "/spec/dnsNames/4", want: "a"},
	{leaf: "tls.certManager.duration", to: "1h", with: issued, object: "Certificate/kvm2d", field: "/spec/duration"},
	{leaf: "tls.certManager.renewBefore", to: "1m", with: issued, object: "Certificate/kvm2d", field: "/spec/renewBefore"},
	{leaf: "serviceAccount.create", to: false, object: "ServiceAccount/kvm2d", field: "/kind", want: absent{}},
	{leaf: "serviceAccount.name", to: "a", object: "ServiceAccount/a", field: "/kind", want: "ServiceAccount"},
	{leaf: "serviceAccount.annotations", to: labels, object: "ServiceAccount/kvm2d", field: "/metadata/annotations/a", want: "b"},
	{leaf: "rbac.create", to: false, with: reviewed, object: "ClusterRoleBinding/egress:kvm2d:tokenreview", field: "/kind", want: absent{}},
}

// daemonFlips are of the Deployment and its Pods.
var daemonFlips = []flip{
	{leaf: "image.repository", to: "a/b", object: mainName, field: daemon + "/image", want: "a/b:0.1.0"},
	{leaf: "image.tag", to: "a", object: mainName, field: daemon + "/image", want: "localhost/kvm2d:a"},
	{leaf: "image.digest", to: "sha256:" + strings.Repeat("a", 64), object: mainName, field: daemon + "/image", want: "localhost/kvm2d@sha256:" + strings.Repeat("a", 64)},
	{leaf: "image.pullPolicy", to: "Never", object: mainName, field: daemon + "/imagePullPolicy"},
	{leaf: "imagePullSecrets", to: l{m{"name": "a"}}, object: mainName, field: pod + "/imagePullSecrets"},
	{leaf: "replicaCount", to: 2, object: mainName, field: "/spec/replicas"},
	{leaf: "strategy.type", to: "Recreate", object: mainName, field: "/spec/strategy/type"},
	{leaf: "strategy.rollingUpdate.maxSurge", to: "50%", object: mainName, field: "/spec/strategy/rollingUpdate/maxSurge"},
	{leaf: "strategy.rollingUpdate.maxUnavailable", to: 1, object: mainName, field: "/spec/strategy/rollingUpdate/maxUnavailable"},
	{leaf: "revisionHistoryLimit", to: 0, object: mainName, field: "/spec/revisionHistoryLimit"},
	{leaf: "terminationGracePeriodSeconds", to: 300, object: mainName, field: pod + "/terminationGracePeriodSeconds"},
	{leaf: "preStopSleepSeconds", to: 7, object: mainName, field: daemon + "/lifecycle/preStop/sleep/seconds"},
	{leaf: "log.level", to: "debug", object: mainName, field: daemon + "/args/2", want: "--log-level=debug"},
	{leaf: "log.format", to: "text", object: mainName, field: daemon + "/args/3", want: "--log-format=text"},
	{leaf: "extraArgs", to: l{"--a"}, object: mainName, field: daemon + "/args/4", want: "--a"},
	{leaf: "extraEnv", to: l{env}, object: mainName, field: daemon + "/env/4", want: env},
	{leaf: "extraEnvFrom", to: l{m{"secretRef": m{"name": "a"}}}, object: mainName, field: daemon + "/envFrom"},
	{leaf: "extraVolumes", to: l{volume}, object: mainName, field: pod + "/volumes/4", want: volume},
	{leaf: "extraVolumeMounts", to: l{mount}, object: mainName, field: daemon + "/volumeMounts/4", want: mount},
	{leaf: "extraContainers", to: container, object: mainName, field: pod + "/containers/1", want: container[0]},
	{leaf: "initContainers", to: container, object: mainName, field: pod + "/initContainers"},
	{leaf: "resources.requests.cpu", to: "1", object: mainName, field: daemon + "/resources/requests/cpu"},
	{leaf: "resources.requests.memory", to: "1Gi", object: mainName, field: daemon + "/resources/requests/memory"},
	{leaf: "resources.limits.memory", to: "1Gi", object: mainName, field: daemon + "/resources/limits/memory"},
	{leaf: "tmp.sizeLimit", to: "65Mi", object: mainName, field: pod + "/volumes/1/emptyDir/sizeLimit"},
	{leaf: "podSecurityContext.runAsNonRoot", to: false, object: mainName, field: pod + "/securityContext/runAsNonRoot"},
	{leaf: "podSecurityContext.runAsUser", to: 1000660000, object: mainName, field: pod + "/securityContext/runAsUser"},
	{leaf: "podSecurityContext.runAsGroup", to: 7, object: mainName, field: pod + "/securityContext/runAsGroup"},
	{leaf: "podSecurityContext.fsGroup", to: 7, object: mainName, field: pod + "/securityContext/fsGroup"},
	{leaf: "podSecurityContext.fsGroupChangePolicy", to: "Always", object: mainName, field: pod + "/securityContext/fsGroupChangePolicy"},
	{leaf: "podSecurityContext.seccompProfile.type", to: "Unconfined", object: mainName, field: pod + "/securityContext/seccompProfile/type"},
	{leaf: "securityContext.allowPrivilegeEscalation", to: true, object: mainName, field: daemon + "/securityContext/allowPrivilegeEscalation"},
	{leaf: "securityContext.readOnlyRootFilesystem", to: false, object: mainName, field: daemon + "/securityContext/readOnlyRootFilesystem"},
	{leaf: "securityContext.capabilities.drop", to: l{"CHOWN"}, object: mainName, field: daemon + "/securityContext/capabilities/drop"},
	{leaf: "livenessProbe.periodSeconds", to: 7, object: mainName, field: daemon + "/livenessProbe/periodSeconds"},
	{leaf: "livenessProbe.timeoutSeconds", to: 7, object: mainName, field: daemon + "/livenessProbe/timeoutSeconds"},
	{leaf: "livenessProbe.failureThreshold", to: 7, object: mainName, field: daemon + "/livenessProbe/failureThreshold"},
	{leaf: "readinessProbe.periodSeconds", to: 7, object: mainName, field: daemon + "/readinessProbe/periodSeconds"},
	{leaf: "readinessProbe.timeoutSeconds", to: 7, object: mainName, field: daemon + "/readinessProbe/timeoutSeconds"},
	{leaf: "readinessProbe.failureThreshold", to: 7, object: mainName, field: daemon + "/readinessProbe/failureThreshold"},
	{leaf: "startupProbe.periodSeconds", to: 7, object: mainName, field: daemon + "/startupProbe/periodSeconds"},
	{leaf: "startupProbe.timeoutSeconds", to: 7, object: mainName, field: daemon + "/startupProbe/timeoutSeconds"},
	{leaf: "startupProbe.failureThreshold", to: 7, object: mainName, field: daemon + "/startupProbe/failureThreshold"},
	{leaf: "ports.api", to: 7777, object: mainName, field: daemon + "/ports/0/containerPort"},
	{leaf: "ports.admin", to: 7777, object: mainName, field: daemon + "/ports/1/containerPort"},
	{leaf: "podLabels", to: labels, object: mainName, field: "/spec/template/metadata/labels/a", want: "b"},
	{leaf: "podAnnotations", to: labels, object: mainName, field: "/spec/template/metadata/annotations/a", want: "b"},
	{leaf: "deploymentAnnotations", to: labels, object: mainName, field: "/metadata/annotations/a", want: "b"},
	{leaf: "priorityClassName", to: "a", object: mainName, field: pod + "/priorityClassName"},
	{leaf: "runtimeClassName", to: "a", object: mainName, field: pod + "/runtimeClassName"},
	{leaf: "nodeSelector", to: labels, object: mainName, field: pod + "/nodeSelector"},
	{leaf: "tolerations", to: l{m{"key": "a"}}, object: mainName, field: pod + "/tolerations"},
	{leaf: "affinity", to: m{"nodeAffinity": m{}}, object: mainName, field: pod + "/affinity"},
	{leaf: "topologySpreadConstraints", to: l{m{"maxSkew": 2, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}}, object: mainName, field: pod + "/topologySpreadConstraints/0/topologyKey", want: "a"},
	{leaf: "hostAliases", to: l{m{"ip": "10.0.0.1", "hostnames": l{"a"}}}, object: mainName, field: pod + "/hostAliases"},
	{leaf: "dnsPolicy", to: "None", object: mainName, field: pod + "/dnsPolicy"},
	{leaf: "dnsConfig", to: m{"searches": l{"a"}}, object: mainName, field: pod + "/dnsConfig"},
	{leaf: "hostNetwork", to: true, object: mainName, field: pod + "/hostNetwork"},
}

// aroundFlips are of what stands around the daemon.
var aroundFlips = []flip{
	{leaf: "service.type", to: "NodePort", object: service, field: "/spec/type"},
	{leaf: "service.port", to: 80, object: service, field: "/spec/ports/0/port"},
	{leaf: "service.nodePort", to: 30000, object: service, field: "/spec/ports/0/nodePort"},
	{leaf: "service.annotations", to: labels, object: service, field: "/metadata/annotations/a", want: "b"},
	{leaf: "networkPolicy.enabled", to: true, object: "NetworkPolicy/kvm2d", field: "/kind", want: "NetworkPolicy"},
	{leaf: "networkPolicy.ingress.namespaces", to: l{"a"}, with: fenced, object: "NetworkPolicy/kvm2d", field: "/spec/ingress/0/from/1/namespaceSelector/matchLabels/kubernetes.io~1metadata.name", want: "a"},
	{leaf: "networkPolicy.ingress.from", to: l{m{"podSelector": m{}}}, with: fenced, object: "NetworkPolicy/kvm2d", field: "/spec/ingress/0/from/1", want: m{"podSelector": m{}}},
	{leaf: "networkPolicy.ingress.metricsNamespaces", to: l{"a"}, with: fenced, object: "NetworkPolicy/kvm2d", field: "/spec/ingress/1/from/0/namespaceSelector/matchLabels/kubernetes.io~1metadata.name", want: "a"},
	{leaf: "networkPolicy.egress.cidrs", to: l{"10.0.0.0/8"}, with: fenced, object: "NetworkPolicy/kvm2d", field: "/spec/egress/2/to/0/ipBlock/cidr", want: "10.0.0.0/8"},
	{leaf: "networkPolicy.egress.ports", to: l{22}, with: fenced, object: "NetworkPolicy/kvm2d", field: "/spec/egress/2/ports/0/port", want: 22},
	{leaf: "podDisruptionBudget.enabled", to: false, with: "replicaCount: 2", object: "PodDisruptionBudget/kvm2d", field: "/kind", want: absent{}},
	{leaf: "podDisruptionBudget.maxUnavailable", to: "50%", with: "replicaCount: 2", object: "PodDisruptionBudget/kvm2d", field: "/spec/maxUnavailable"},
	{leaf: "metrics.service.enabled", to: false, object: "Service/kvm2d-metrics", field: "/kind", want: absent{}},
	{leaf: "metrics.service.annotations", to: labels, object: "Service/kvm2d-metrics", field: "/metadata/annotations/a", want: "b"},
	{leaf: "metrics.serviceMonitor.enabled", to: true, object: "ServiceMonitor/kvm2d", field: "/kind", want: "ServiceMonitor"},
	{leaf: "metrics.serviceMonitor.interval", to: "7s", with: scraped, object: "ServiceMonitor/kvm2d", field: "/spec/endpoints/0/interval"},
	{leaf: "metrics.serviceMonitor.scrapeTimeout", to: "7s", with: scraped, object: "ServiceMonitor/kvm2d", field: "/spec/endpoints/0/scrapeTimeout"},
	{leaf: "metrics.serviceMonitor.labels", to: labels, with: scraped, object: "ServiceMonitor/kvm2d", field: "/metadata/labels/a", want: "b"},
	{leaf: "metrics.serviceMonitor.relabelings", to: relabel, with: scraped, object: "ServiceMonitor/kvm2d", field: "/spec/endpoints/0/relabelings"},
	{leaf: "metrics.serviceMonitor.metricRelabelings", to: relabel, with: scraped, object: "ServiceMonitor/kvm2d", field: "/spec/endpoints/0/metricRelabelings"},
	{leaf: "metrics.prometheusRule.enabled", to: true, object: "PrometheusRule/kvm2d", field: "/spec/groups/0/name", want: "kvm2d"},
	{leaf: "metrics.prometheusRule.labels", to: labels, with: alerted, object: "PrometheusRule/kvm2d", field: "/metadata/labels/a", want: "b"},
	{leaf: "metrics.dashboard.enabled", to: true, object: "ConfigMap/kvm2d-dashboard", field: "/data/kvm2d.json/uid", want: "kvm2d"},
	{leaf: "metrics.dashboard.labels", to: labels, with: shown, object: "ConfigMap/kvm2d-dashboard", field: "/metadata/labels/a", want: "b"},
	{leaf: "metrics.dashboard.annotations", to: labels, with: shown, object: "ConfigMap/kvm2d-dashboard", field: "/metadata/annotations/a", want: "b"},
	{leaf: "ingress.enabled", to: true, object: "Ingress/kvm2d", field: "/kind", want: "Ingress"},
	{leaf: "ingress.className", to: "a", with: entered, object: "Ingress/kvm2d", field: "/spec/ingressClassName"},
	{leaf: "ingress.annotations", to: labels, with: entered, object: "Ingress/kvm2d", field: "/metadata/annotations/a", want: "b"},
	{leaf: "ingress.host", to: "a.b", with: entered, object: "Ingress/kvm2d", field: "/spec/rules/0/host"},
	{leaf: "ingress.tlsSecret", to: "a", with: entered, object: "Ingress/kvm2d", field: "/spec/tls/0/secretName"},
	{leaf: "httpRoute.enabled", to: true, with: "httpRoute: {parentRefs: [{name: a}]}", object: "HTTPRoute/kvm2d", field: "/kind", want: "HTTPRoute"},
	{leaf: "httpRoute.annotations", to: labels, with: routed, object: "HTTPRoute/kvm2d", field: "/metadata/annotations/a", want: "b"},
	{leaf: "httpRoute.parentRefs", to: l{m{"name": "b"}}, with: routed, object: "HTTPRoute/kvm2d", field: "/spec/parentRefs"},
	{leaf: "httpRoute.hostnames", to: l{"a"}, with: routed, object: "HTTPRoute/kvm2d", field: "/spec/hostnames"},
	{leaf: "test.timeout", to: "7s", object: "Pod/kvm2d-test", field: "/spec/containers/0/args/3", want: "--timeout=7s"},
	{leaf: "test.resources.requests.cpu", to: "1", object: "Pod/kvm2d-test", field: "/spec/containers/0/resources/requests/cpu"},
	{leaf: "test.resources.requests.memory", to: "1Gi", object: "Pod/kvm2d-test", field: "/spec/containers/1/resources/requests/memory"},
	{leaf: "test.resources.limits.memory", to: "1Gi", object: "Pod/kvm2d-test", field: "/spec/containers/0/resources/limits/memory"},
}

func flips() []flip {
	return append(append(append([]flip{}, namingFlips...), daemonFlips...), aroundFlips...)
}

// TestValues_everyLeafChangesItsField sets each value of values.yaml to another one
// and wants the field that it stands for to become that.
func TestValues_everyLeafChangesItsField(t *testing.T) {
	for _, f := range flips() {
		t.Run(f.leaf, func(t *testing.T) {
			t.Parallel()
			before := render(t, f.with)
			after := render(t, f.with, nested(t, f.leaf, f.to))
			if !strings.Contains(f.field, "/annotations/") {
				stripAnnotations(before[f.object], after[f.object])
			}
			want := f.want
			if want == nil {
				want = f.to
			}
			was, got := find(t, before[f.object], f.field), find(t, after[f.object], f.field)
			if cmp.Equal(was, got) {
				t.Errorf("%s of %s stays %v", f.field, f.object, was)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s of %s (-want +got):\n%s", f.field, f.object, diff)
			}
		})
	}
}

// stripAnnotations takes the annotations off objects and their Pods: a digest of
// all values among them would make every leaf look alive.
func stripAnnotations(objects ...m) {
	for _, o := range objects {
		if metadata, ok := o["metadata"].(m); ok {
			delete(metadata, "annotations")
		}
		if spec, ok := o["spec"].(m); ok {
			if inner, ok := spec["template"].(m); ok {
				stripAnnotations(inner)
			}
		}
	}
}

func TestValues_everyLeafHasItsRow(t *testing.T) {
	values, err := readValues()
	if err != nil {
		t.Fatal(err)
	}
	h, err := readHints(hintsFile)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, f := range flips() {
		if rows[f.leaf] {
			t.Errorf("%s has two rows", f.leaf)
		}
		rows[f.leaf] = true
	}
	for _, leaf := range h.leaves(values) {
		if !rows[leaf.Path] {
			t.Errorf("%s has no row", leaf.Path)
		}
		delete(rows, leaf.Path)
	}
	for leaf := range rows {
		t.Errorf("%s is not in values.yaml", leaf)
	}
}
