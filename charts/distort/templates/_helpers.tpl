{{/* Name of a component's objects and service account: the one place. */}}
{{- define "distort.name" -}}
{{- printf "distort-%s" . -}}
{{- end -}}

{{/* Labels of every object. */}}
{{- define "distort.labels" -}}
app.kubernetes.io/name: distort
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{/* Labels that select a component's pods; they never change. */}}
{{- define "distort.selector" -}}
app.kubernetes.io/name: distort
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{/* An image by digest or exact tag. */}}
{{- define "distort.image" -}}
{{- $image := index .root.Values.images .name -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else if or (not $image.tag) (eq $image.tag "latest") -}}
{{- fail (printf "images.%s.tag is %q: name an exact tag or a digest" .name $image.tag) -}}
{{- else -}}
{{- printf "%s:%s" $image.repository $image.tag -}}
{{- end -}}
{{- end -}}

{{/* Pod settings that every component shares. */}}
{{- define "distort.pod" -}}
serviceAccountName: {{ include "distort.name" .component }}
{{- with .root.Values.images.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Security context of containers that need nothing of the host. */}}
{{- define "distort.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* Probes of the health server on a port called health. */}}
{{- define "distort.probes" -}}
livenessProbe:
  httpGet: {path: /healthz, port: health}
  initialDelaySeconds: 10
  periodSeconds: 20
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{/* Leader election of an upstream sidecar: its leader gives up after two thirds
     of the lease, as the manager does. */}}
{{- define "distort.sidecarElection" -}}
{{- $lease := int .Values.leaderElection.leaseSeconds -}}
- --leader-election
- --leader-election-namespace={{ .Release.Namespace }}
- --leader-election-lease-duration={{ $lease }}s
- --leader-election-renew-deadline={{ div (mul $lease 2) 3 }}s
- --leader-election-retry-period={{ max 1 (div $lease 7) }}s
{{- end -}}
