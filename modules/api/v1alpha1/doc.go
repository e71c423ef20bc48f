// Package v1alpha1 is the API group storage.distort.io/v1alpha1: the only place
// where distort-manager, distort-agent and distort-csi meet.
//
// Spec is intent, status is observation, and each status field has one writer,
// named where the field is declared. What a bad object must not contain is said
// in CEL rules beside the fields, so the API server refuses it and no webhook
// is needed. Sizes are bytes.
//
// +kubebuilder:object:generate=true
// +groupName=storage.distort.io
package v1alpha1
