{{/* The node of the pod that the caller's token is bound to; empty without one. */}}
{{- define "distort.claimedNode" -}}
- name: node
  expression: >-
    has(request.userInfo.extra) && 'authentication.kubernetes.io/node-name' in request.userInfo.extra &&
    size(request.userInfo.extra['authentication.kubernetes.io/node-name']) == 1 ?
    request.userInfo.extra['authentication.kubernetes.io/node-name'][0] : ''
{{- end -}}

{{/* Refuses a caller without it. */}}
{{- define "distort.claimPresent" -}}
- expression: variables.node != ''
  message: the token names no node; it must be bound to a pod
  reason: Forbidden
{{- end -}}

{{/* What puts a policy into force. */}}
{{- define "distort.policyBinding" -}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "distort.labels" . | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end -}}
