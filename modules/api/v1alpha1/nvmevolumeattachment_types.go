package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition AccessReady of an NVMeVolumeAttachment: the target admits exactly
// this host. Written by distort-agent, but for StorageNodeSilent.
const (
	ConditionAccessReady = "AccessReady"
	// ReasonGranted: the host was read back from the target's list.
	ReasonGranted = "Granted"
	// ReasonVolumeNotExported (retryable): the volume has no healthy export yet.
	ReasonVolumeNotExported = "VolumeNotExported"
	// ReasonGrantFailed (retryable): the target refused; the message says what.
	ReasonGrantFailed = "GrantFailed"
	// ReasonVolumeMismatch (terminal): the referenced volume is gone or is
	// another one now.
	ReasonVolumeMismatch = "VolumeMismatch"
	// ReasonRevoking (retryable): access is being withdrawn; the message says
	// which proof is missing.
	ReasonRevoking = "Revoking"
	// ReasonRevoked: the evidence that the host is fenced is in status.revocation.
	ReasonRevoked = "Revoked"
	// ReasonStorageNodeSilent (retryable): access is to be withdrawn, and the storage
	// node's agent is silent, so that AccessReady is Unknown and nothing is released;
	// the message says which proof is missing. Written by distort-manager, until the
	// agent is back and says Revoking or Revoked.
	ReasonStorageNodeSilent = "StorageNodeSilent"
)

// NVMeVolumeAttachmentSpec is written by distort-csi and never changes.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the spec of an attachment is immutable"
type NVMeVolumeAttachmentSpec struct {
	// VolumeRef is the volume.
	VolumeRef VolumeReference `json:"volumeRef"`
	// TargetNode is the storage node whose target admits the host.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	TargetNode string `json:"targetNode"`
	// NodeID is the CSI node ID of the host.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeID string `json:"nodeID"`
	// HostNQN is the host's NQN (identity.HostNQN).
	// +kubebuilder:validation:Pattern=`^nqn\.2026-01\.io\.distort:host-[0-9a-f]{32}$`
	// +kubebuilder:validation:MaxLength=60
	HostNQN string `json:"hostNQN"`
	// AttachmentID tells the lifetimes of attachments of one name apart: a UUID
	// made when the attachment is requested.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`
	// +kubebuilder:validation:MaxLength=36
	AttachmentID string `json:"attachmentID"`
}

// RevocationEvidence is what proves that a host cannot reach the medium any
// more (design.md §6). It goes with the attachment, and stays in an event on the
// volume and in the agent's log.
type RevocationEvidence struct {
	// Observed says what was read.
	// +kubebuilder:validation:MaxLength=1024
	Observed string `json:"observed"`
	// Source is where it was read: configfs, or an SPDK call.
	// +kubebuilder:validation:MaxLength=253
	Source string `json:"source"`
	// ObservedAt is when it was read, by the clock of the storage node.
	ObservedAt metav1.Time `json:"observedAt"`
	// Agent is the storage node whose agent read it.
	// +kubebuilder:validation:MaxLength=253
	Agent string `json:"agent"`
}

// NVMeVolumeAttachmentStatus is written by distort-agent, but for Filesystem and
// for the reason StorageNodeSilent.
type NVMeVolumeAttachmentStatus struct {
	// ObservedAttachmentID is the attachment that the conditions speak of.
	// +optional
	ObservedAttachmentID string `json:"observedAttachmentID,omitempty"`
	// Revocation is the evidence, written before the finalizer goes.
	// +optional
	Revocation *RevocationEvidence `json:"revocation,omitempty"`
	// Filesystem is the format record: the volume's as distort-agent knew it when
	// it granted access, then written by distort-csi on the node. distort-agent
	// copies it back to the volume.
	// +optional
	Filesystem *FilesystemStatus `json:"filesystem,omitempty"`
	// Conditions are AccessReady.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NVMeVolumeAttachment admits one host to one export.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,categories=distort
// +kubebuilder:selectablefield:JSONPath=`.spec.targetNode`
// +kubebuilder:selectablefield:JSONPath=`.spec.nodeID`
// +kubebuilder:printcolumn:name="Volume",type=string,JSONPath=`.spec.volumeRef.name`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeID`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.targetNode`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="AccessReady")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="AccessReady")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NVMeVolumeAttachment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NVMeVolumeAttachmentSpec `json:"spec"`
	// +optional
	Status NVMeVolumeAttachmentStatus `json:"status,omitempty"`
}

// NVMeVolumeAttachmentList is a list of NVMeVolumeAttachment.
// +kubebuilder:object:root=true
type NVMeVolumeAttachmentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NVMeVolumeAttachment `json:"items"`
}
