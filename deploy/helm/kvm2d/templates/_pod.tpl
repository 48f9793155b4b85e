{{- define "kvm2d.podSpec" -}}
serviceAccountName: {{ include "kvm2d.serviceAccountName" . | quote }}
automountServiceAccountToken: {{ include "kvm2d.tokenReview" . | eq "yes" }}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "kvm2d.graceSeconds" . }}
hostNetwork: {{ .Values.hostNetwork }}
dnsPolicy: {{ .Values.dnsPolicy }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ quote . }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ quote . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{ hasKey . "labelSelector" | ternary . (set (deepCopy .) "labelSelector" (dict "matchLabels" (include "kvm2d.selectorLabels" $ | fromYaml))) | toYaml | nindent 4 | trim }}
  {{- end }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.initContainers }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: kvm2d
    {{- include "kvm2d.container" . | nindent 4 }}
  {{- with .Values.extraContainers }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
volumes:
  - name: config
    configMap:
      name: {{ include "kvm2d.fullname" . | quote }}
  - name: tmp
    emptyDir:
      medium: Memory
      sizeLimit: {{ .Values.tmp.sizeLimit }}
  {{- range include "kvm2d.secretMounts" . | fromYamlArray }}
  - name: {{ .name }}
    secret:
      secretName: {{ quote .secret }}
      # Read by the group, which is the daemon's by fsGroup.
      defaultMode: 0440
  {{- end }}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The Secrets that the daemon reads, each as a folder /etc/kvm2d/NAME: a folder, unlike a single file, follows its Secret. */}}
{{- define "kvm2d.secretMounts" -}}
{{- if include "kvm2d.hasSSH" . }}
- {name: ssh, secret: {{ include "kvm2d.sshSecret" . | quote }}}
{{- end }}
{{- if .Values.auth.token.enabled }}
- {name: auth, secret: {{ include "kvm2d.tokenSecret" . | quote }}}
{{- end }}
{{- if .Values.tls.enabled }}
- {name: tls, secret: {{ include "kvm2d.tlsSecret" . | quote }}}
{{- end }}
{{- with .Values.tls.clientCASecret }}
- {name: client-ca, secret: {{ quote . }}}
{{- end }}
{{- end -}}

{{/* The daemon's container, all but its name. */}}
{{- define "kvm2d.container" -}}
image: {{ include "kvm2d.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
# Why it did not start is then told by kubectl describe, too.
terminationMessagePolicy: FallbackToLogsOnError
args:
  - serve
  - --config=/etc/kvm2d/config/kvm2d.yaml
  - --log-level={{ .Values.log.level }}
  - --log-format={{ .Values.log.format }}
  {{- with .Values.extraArgs }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
env:
  {{- with include "kvm2d.goMemory" . }}
  - name: GOMEMLIMIT
    value: {{ . }}MiB
  {{- end }}
  - name: TMPDIR
    value: /tmp
  # For the client in the image, as kubectl exec runs it.
  - name: KVM2D_SERVER
    value: {{ if .Values.tls.enabled }}{{ include "kvm2d.url" . }}{{ else }}{{ printf "http://127.0.0.1:%d" (int .Values.ports.api) }}{{ end }}
  {{- if .Values.auth.token.enabled }}
  - name: KVM2D_TOKEN_FILE
    value: /etc/kvm2d/auth/token
  {{- end }}
  {{- if include "kvm2d.hasCA" . }}
  - name: KVM2D_CA_FILE
    value: /etc/kvm2d/tls/ca.crt
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - name: api
    containerPort: {{ .Values.ports.api }}
  - name: admin
    containerPort: {{ .Values.ports.admin }}
{{- range $probe, $path := dict "startupProbe" "/livez" "livenessProbe" "/livez" "readinessProbe" "/readyz" }}
{{- with get $.Values $probe }}
{{ $probe }}:
  httpGet:
    path: {{ $path }}
    port: admin
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with include "kvm2d.preStopSeconds" . | int }}
lifecycle:
  preStop:
    sleep:
      seconds: {{ . }}
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
volumeMounts:
  - name: config
    mountPath: /etc/kvm2d/config
    readOnly: true
  - name: tmp
    mountPath: /tmp
  {{- range include "kvm2d.secretMounts" . | fromYamlArray }}
  - name: {{ .name }}
    mountPath: /etc/kvm2d/{{ .name }}
    readOnly: true
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
