{{/* The daemon's configuration file: the value config, and what the chart knows better. */}}
{{- define "kvm2d.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if not $config.kvm2.hosts -}}
{{- fail "config.kvm2.hosts is empty: name at least one libvirt host, as in docs/config.example.yaml" -}}
{{- end -}}
{{- range $config.kvm2.hosts -}}
{{- if hasPrefix "qemu+ssh:" .uri -}}
{{- include "kvm2d.login" (dict "root" $ "of" . "name" .name) -}}
{{- with .jump }}{{ include "kvm2d.login" (dict "root" $ "of" . "name" "the jump server") }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $_ := set $config "server" (include "kvm2d.server" (dict "root" . "server" (default dict $config.server)) | fromYaml) -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Puts the files of the SSH Secret into a host, or its jump server, that names none. */}}
{{- define "kvm2d.login" -}}
{{- $ssh := .root.Values.ssh -}}
{{- $dir := "/etc/kvm2d/ssh" -}}
{{- if not (or .of.sshKeyFile .of.agentSocket) -}}
{{- if not (include "kvm2d.hasSSH" .root) -}}
{{- fail (printf "ssh.existingSecret is missing: %s names no sshKeyFile of its own" .name) -}}
{{- end -}}
{{- $_ := set .of "sshKeyFile" (printf "%s/%s" $dir $ssh.privateKeyKey) -}}
{{- if and $ssh.passphraseKey (not .of.passphraseFile) -}}
{{- $_ := set .of "passphraseFile" (printf "%s/%s" $dir $ssh.passphraseKey) -}}
{{- end -}}
{{- end -}}
{{- if not (or .of.knownHostsFile .of.insecureIgnoreHostKey) -}}
{{- if not (include "kvm2d.hasSSH" .root) -}}
{{- fail (printf "ssh.existingSecret is missing: %s names no knownHostsFile of its own" .name) -}}
{{- end -}}
{{- if not (or $ssh.existingSecret $ssh.knownHosts) -}}
{{- fail (printf "ssh.knownHosts is missing: %s names no knownHostsFile of its own" .name) -}}
{{- end -}}
{{- $_ := set .of "knownHostsFile" (printf "%s/%s" $dir $ssh.knownHostsKey) -}}
{{- end -}}
{{- end -}}

{{/* Not empty when there is an SSH Secret. */}}
{{- define "kvm2d.hasSSH" -}}
{{- if or .Values.ssh.existingSecret .Values.ssh.privateKey }}yes{{ end -}}
{{- end -}}

{{/* Not empty when callers' ServiceAccounts are asked about. */}}
{{- define "kvm2d.tokenReview" -}}
{{- if hasKey (dig "server" "auth" dict .Values.config) "tokenReview" }}yes{{ end -}}
{{- end -}}

{{/* The block server: addresses, and the files of callers' tokens and of certificates. */}}
{{- define "kvm2d.server" -}}
{{- $values := .root.Values -}}
{{- $server := .server -}}
{{- $auth := default dict $server.auth -}}
{{- $_ := set $server "listen" (printf ":%d" (int $values.ports.api)) -}}
{{- $_ := set $server "adminListen" (printf ":%d" (int $values.ports.admin)) -}}
{{- if $values.auth.token.enabled -}}
{{- $_ := set $auth "token" (dict "file" "/etc/kvm2d/auth/tokens") -}}
{{- end -}}
{{- if hasKey $auth "clientCert" -}}
{{- if not (and $values.tls.enabled $values.tls.clientCASecret) -}}
{{- fail "config.server.auth.clientCert needs tls.enabled and tls.clientCASecret" -}}
{{- end -}}
{{- $_ := set $auth.clientCert "caFile" "/etc/kvm2d/client-ca/ca.crt" -}}
{{- end -}}
{{- if not $auth -}}
{{- fail "nobody could call: auth.token.enabled is false, and config.server.auth has neither tokenReview nor clientCert" -}}
{{- end -}}
{{- $_ := set $server "auth" $auth -}}
{{- if $values.tls.enabled -}}
{{- if not (or $values.tls.existingSecret $values.tls.certManager.enabled) -}}
{{- fail "tls.enabled needs tls.existingSecret or tls.certManager.enabled" -}}
{{- end -}}
{{- $_ := set $server "tls" (dict "certFile" "/etc/kvm2d/tls/tls.crt" "keyFile" "/etc/kvm2d/tls/tls.key") -}}
{{- end -}}
{{- toYaml $server -}}
{{- end -}}

{{/* Changes when the daemon has to be started anew: the digest of what it does not take over while it runs. */}}
{{- define "kvm2d.startChecksum" -}}
{{- $config := include "kvm2d.config" . | fromYaml -}}
{{- $_ := set $config "kvm2" (omit $config.kvm2 "hosts" "images" "sizes" "placements") -}}
{{- toJson $config | sha256sum -}}
{{- end -}}

{{/*
Names the hosts that an upgrade took away, and keeps that until the next time: the daemon drops none while it runs, so its Pods have to be
made anew then. Without a cluster to look at it is empty.
*/}}
{{- define "kvm2d.hostsRemoved" -}}
{{- $name := include "kvm2d.fullname" . -}}
{{- $stay := list -}}
{{- range .Values.config.kvm2.hosts }}{{ $stay = append $stay .name }}{{ end -}}
{{- $gone := list -}}
{{- with lookup "v1" "ConfigMap" .Release.Namespace $name -}}
{{- range dig "data" "kvm2d.yaml" "" . | fromYaml | dig "kvm2" "hosts" list -}}
{{- if not (has .name $stay) }}{{ $gone = append $gone .name }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if $gone -}}
{{- printf "%s, by revision %d" (join " " $gone) .Release.Revision -}}
{{- else -}}
{{- dig "spec" "template" "metadata" "annotations" "kvm2d/hosts-removed" "" (lookup "apps/v1" "Deployment" .Release.Namespace $name) -}}
{{- end -}}
{{- end -}}
