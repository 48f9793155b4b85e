{{/* Refuses values that can each be right, and together are not. */}}
{{- define "kvm2d.refusals" -}}
{{- $name := include "kvm2d.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "%s is no name for a Service, which has a-z, 0-9 and '-' and begins with a letter: set fullnameOverride" $name) -}}
{{- end -}}
{{- with .Values.ssh -}}
{{- if and .existingSecret (or .privateKey .knownHosts) -}}
{{- fail "ssh.existingSecret and ssh.privateKey, or ssh.knownHosts, are two ways to say one thing: use one" -}}
{{- end -}}
{{- if and .privateKey .passphraseKey -}}
{{- fail "ssh.passphraseKey needs ssh.existingSecret" -}}
{{- end -}}
{{- end -}}
{{- with .Values.tls.certManager -}}
{{- if and .enabled (not $.Values.tls.enabled) -}}
{{- fail "tls.certManager.enabled needs tls.enabled: without it the API speaks plain HTTP" -}}
{{- end -}}
{{- if and .enabled (not .issuerRef.name) -}}
{{- fail "tls.certManager.issuerRef.name is missing" -}}
{{- end -}}
{{- end -}}
{{- if eq (int .Values.ports.api) (int .Values.ports.admin) -}}
{{- fail (printf "ports.api and ports.admin are both %d" (int .Values.ports.api)) -}}
{{- end -}}
{{- with .Values.httpRoute -}}
{{- if and .enabled (not .parentRefs) -}}
{{- fail "httpRoute.parentRefs is empty: name a gateway" -}}
{{- end -}}
{{- end -}}
{{- end -}}
