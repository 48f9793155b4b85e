{{/* A Go duration in whole seconds. */}}
{{- define "kvm2d.seconds" -}}
{{- $start := toDate "2006-01-02" "2000-01-01" -}}
{{- sub ($start | mustDateModify (toString .) | unixEpoch) ($start | unixEpoch) -}}
{{- end -}}

{{/* A quantity of memory in whole MiB. */}}
{{- define "kvm2d.mebibytes" -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $text := kindIs "float64" . | ternary (int64 . | toString) (toString .) -}}
{{- $unit := regexReplaceAll "^[0-9]+" $text "" -}}
{{- if or (not (hasKey $units $unit)) (not (regexMatch "^[0-9]+" $text)) -}}
{{- fail (printf "memory of %s: want a whole number and k, M, G, T, Ki, Mi, Gi or Ti" $text) -}}
{{- end -}}
{{- div (mul (trimSuffix $unit $text | int64) (get $units $unit)) 1048576 -}}
{{- end -}}

{{/* GOMEMLIMIT in MiB: nine tenths of the memory limit that /tmp, which is memory too, leaves. Nothing without a limit. */}}
{{- define "kvm2d.goMemory" -}}
{{- with dig "limits" "memory" "" (default dict .Values.resources) -}}
{{- $left := sub (include "kvm2d.mebibytes" . | int64) (include "kvm2d.mebibytes" $.Values.tmp.sizeLimit | int64) -}}
{{- if lt $left 128 -}}
{{- fail (printf "resources.limits.memory of %s leaves %d MiB beside tmp.sizeLimit: at least 128 are needed" (toString .) $left) -}}
{{- end -}}
{{- div (mul $left 9) 10 -}}
{{- end -}}
{{- end -}}

{{/* Whether the kubelet knows preStop.sleep, and for how many seconds it is wanted; 0 otherwise. */}}
{{- define "kvm2d.preStopSeconds" -}}
{{- ternary (int .Values.preStopSleepSeconds) 0 (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) -}}
{{- end -}}

{{/* What the daemon needs to end: it stops taking calls, drains, and cleans up what was cut short. */}}
{{- define "kvm2d.graceSeconds" -}}
{{- $drain := dig "timeouts" "drain" "60s" .Values.config -}}
{{- $need := add (include "kvm2d.preStopSeconds" . | int) (include "kvm2d.seconds" $drain | int) 30 -}}
{{- $given := int .Values.terminationGracePeriodSeconds -}}
{{- if and $given (lt $given (int $need)) -}}
{{- fail (printf "terminationGracePeriodSeconds of %d: the daemon needs %d, as config.timeouts.drain is %v" $given $need $drain) -}}
{{- end -}}
{{- default $need $given -}}
{{- end -}}
