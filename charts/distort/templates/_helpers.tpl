{{/* Name of a component's objects and service account: the one place. */}}
{{- define "distort.name" -}}
{{- printf "distort-%s" . -}}
{{- end -}}

{{/* The user that a component's pods are to the API server. */}}
{{- define "distort.user" -}}
{{- printf "system:serviceaccount:%s:%s" .root.Release.Namespace (include "distort.name" .component) -}}
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
{{- $image := index .root.Values.images .name | default dict -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else if or (not $image.tag) (eq $image.tag "latest") -}}
{{- fail (printf "images.%s.tag is %q: name an exact tag or a digest" .name ($image.tag | default "")) -}}
{{- else -}}
{{- printf "%s:%s" $image.repository $image.tag -}}
{{- end -}}
{{- end -}}

{{/* Refuses ports of the node that are given twice: agent and CSI driver share the
     network of a node that does both. */}}
{{- define "distort.checkPorts" -}}
{{- if eq (int .Values.agent.tcpPort) (int .Values.agent.rdmaPort) -}}
{{- fail (printf "agent.tcpPort and agent.rdmaPort are both %d: they must differ, since an RDMA device over Ethernet may listen on the same address" (int .Values.agent.tcpPort)) -}}
{{- end -}}
{{- $used := dict -}}
{{- range $name, $port := dict "agent.tcpPort" .Values.agent.tcpPort "agent.rdmaPort" .Values.agent.rdmaPort "agent.healthPort" .Values.agent.healthPort "agent.metricsPort" .Values.agent.metricsPort "csiNode.healthPort" .Values.csiNode.healthPort "csiNode.metricsPort" .Values.csiNode.metricsPort -}}
{{- $port = toString (int $port) -}}
{{- with get $used $port -}}
{{- fail (printf "%s and %s are both %s: they are ports of one node and must differ" . $name $port) -}}
{{- end -}}
{{- $_ := set $used $port $name -}}
{{- end -}}
{{- end -}}

{{/* The folder and the socket by which the agent speaks with SPDK: only root gets in. */}}
{{- define "distort.spdkFolder" -}}/run/distort-spdk{{- end -}}
{{- define "distort.spdkSocket" -}}{{ include "distort.spdkFolder" . }}/spdk.sock{{- end -}}

{{/* Pod settings that every component shares. */}}
{{- define "distort.pod" -}}
serviceAccountName: {{ include "distort.name" .component }}
automountServiceAccountToken: true
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
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

{{/* OpenTelemetry's variables, as items of env. */}}
{{- define "distort.otel" -}}
{{- range $name, $value := .Values.otel }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end -}}

{{/* Replicas of a Deployment go to different nodes where there are several. */}}
{{- define "distort.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "distort.selector" . | nindent 8 }}
{{- end -}}

{{/* How the pods of a DaemonSet are replaced. */}}
{{- define "distort.updateStrategy" -}}
updateStrategy:
  type: {{ .type }}
  {{- if eq .type "RollingUpdate" }}
  {{- with .rollingUpdate }}
  rollingUpdate:
    {{- toYaml . | nindent 4 }}
  {{- end }}
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

{{/* Probes of the health server on a port called health; host is where it listens
     when that is not the pod's address. */}}
{{- define "distort.probes" -}}
livenessProbe:
  httpGet: {path: /healthz, port: health{{ with .host }}, host: {{ . }}{{ end }}}
  initialDelaySeconds: 10
  periodSeconds: 20
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: health{{ with .host }}, host: {{ . }}{{ end }}}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{/* The rest of a sidecar's container: its port tells whether its election hangs,
     and serves metrics. */}}
{{- define "distort.sidecar" -}}
ports:
  - {name: {{ .port }}, containerPort: {{ .number }}}
livenessProbe:
  httpGet: {path: /healthz/leader-election, port: {{ .port }}}
  initialDelaySeconds: 10
  periodSeconds: 20
  timeoutSeconds: 5
  failureThreshold: 6
resources:
  {{- toYaml .root.Values.csiController.sidecarResources | nindent 2 }}
securityContext:
  {{- include "distort.restricted" . | nindent 2 }}
volumeMounts:
  - {name: socket, mountPath: /csi}
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
