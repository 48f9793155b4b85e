{{/* The name of objects: fullnameOverride, or RELEASE-kvm2d, or RELEASE where that has the chart's name in it. A release may have dots, a Service not. */}}
{{- define "kvm2d.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | replace "." "-" | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | replace "." "-") $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels by which the daemon's Pods are selected. They never change. */}}
{{- define "kvm2d.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/instance: {{ quote .Release.Name }}
app.kubernetes.io/component: daemon
{{- end -}}

{{/* Labels of every object; what is not the daemon itself has no component. The user's come last: they replace none. */}}
{{- define "kvm2d.labels" -}}
{{- $own := omit (include "kvm2d.selectorLabels" . | fromYaml) "app.kubernetes.io/component" -}}
{{- $_ := set $own "app.kubernetes.io/version" (.Chart.AppVersion | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- merge $own (default dict .Values.commonLabels) | toYaml -}}
{{- end -}}

{{/* Name, namespace, labels and annotations of an object: dict "root" $ "suffix" "-x" "labels" dict "annotations" dict; all but root may be left out. */}}
{{- define "kvm2d.metadata" -}}
name: {{ printf "%s%s" (include "kvm2d.fullname" .root) (default "" .suffix) | quote }}
namespace: {{ quote .root.Release.Namespace }}
labels:
  {{- merge (default dict .labels) (include "kvm2d.labels" .root | fromYaml) | toYaml | nindent 2 }}
{{- with merge (default dict .annotations | deepCopy) (default dict .root.Values.commonAnnotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "kvm2d.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "kvm2d.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* ClusterRoles have no namespace: two releases of one name must not share one. No namespace and no name has a colon. */}}
{{- define "kvm2d.clusterName" -}}
{{- printf "%s:%s:tokenreview" .Release.Namespace (include "kvm2d.fullname" .) -}}
{{- end -}}

{{- define "kvm2d.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "kvm2d.sshSecret" -}}
{{- .Values.ssh.existingSecret | default (printf "%s-login" (include "kvm2d.fullname" .)) -}}
{{- end -}}

{{- define "kvm2d.tokenSecret" -}}
{{- .Values.auth.token.existingSecret | default (printf "%s-token" (include "kvm2d.fullname" .)) -}}
{{- end -}}

{{- define "kvm2d.tlsSecret" -}}
{{- .Values.tls.existingSecret | default (printf "%s-tls" (include "kvm2d.fullname" .)) -}}
{{- end -}}

{{- define "kvm2d.scheme" -}}
{{ if .Values.tls.enabled }}https{{ else }}http{{ end }}
{{- end -}}

{{/* The API as Pods of any namespace call it. */}}
{{- define "kvm2d.url" -}}
{{- printf "%s://%s.%s.svc:%d" (include "kvm2d.scheme" .) (include "kvm2d.fullname" .) .Release.Namespace (int .Values.service.port) -}}
{{- end -}}

{{/* Not empty when callers inside know the API by the authority in its Secret. */}}
{{- define "kvm2d.hasCA" -}}
{{- if and .Values.tls.enabled .Values.tls.hasCA }}yes{{ end -}}
{{- end -}}

{{/* Not empty when helm test has a token, and can know the API under the Service's name. */}}
{{- define "kvm2d.hasTest" -}}
{{- if and .Values.auth.token.enabled (or (not .Values.tls.enabled) .Values.tls.hasCA) }}yes{{ end -}}
{{- end -}}
