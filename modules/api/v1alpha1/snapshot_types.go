package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition ReadyToUse of a Snapshot: a volume can be restored from it.
const (
	ConditionReadyToUse = "ReadyToUse"
	// ReasonSnapshotTaken: the snapshot was read back.
	ReasonSnapshotTaken = "SnapshotTaken"
	// ReasonSourceUnsupported (terminal): the source's backend has no snapshots.
	ReasonSourceUnsupported = "SourceUnsupported"
	// ReasonSourceNotReady (retryable): the source, or its pool, is not ready.
	ReasonSourceNotReady = "SourceNotReady"
	// ReasonSnapshotFailed (retryable): the snapshot could not be taken. One that found
	// no room for what may be overwritten has ReasonNoSpace.
	ReasonSnapshotFailed = "SnapshotFailed"
	// ReasonSourceGone (terminal): the source is gone or is another volume now.
	ReasonSourceGone = "SourceGone"
	// ReasonHasDependants: the snapshot is being deleted and waits for the volumes
	// that the message names; also of condition Exported of a Volume, which waits for
	// snapshots or copies.
	ReasonHasDependants = "HasDependants"
)

// SnapshotSpec is written by distort-csi and never changes.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the spec of a snapshot is immutable"
type SnapshotSpec struct {
	// Source is the volume.
	Source VolumeReference `json:"source"`
	// NodeName is the storage node that has the source.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`
	// RequestFingerprint tells a retry of the request from another one.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +kubebuilder:validation:MaxLength=64
	RequestFingerprint string `json:"requestFingerprint"`
}

// SnapshotStatus is written by distort-agent.
type SnapshotStatus struct {
	// Size is the smallest size in bytes of a volume restored from the snapshot.
	// +optional
	Size int64 `json:"size,omitempty"`
	// CreatedAt is when the snapshot was taken.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`
	// ReadyToUse is true when a volume can be restored.
	// +optional
	ReadyToUse bool `json:"readyToUse,omitempty"`
	// BackendName is the exact snapshot, such as pool/dataset@name, where it was taken.
	// +optional
	BackendName string `json:"backendName,omitempty"`
	// BackendGUID is what ZFS knows the snapshot by, wherever it is. Deletion goes by it.
	// +kubebuilder:validation:MaxLength=20
	// +optional
	BackendGUID string `json:"backendGUID,omitempty"`
	// PoolGUID is the pool that the snapshot is on.
	// +optional
	PoolGUID PoolGUID `json:"poolGUID,omitempty"`
	// Filesystem is the format record of the source when the snapshot was taken; a
	// volume that is restored begins with it.
	// +optional
	Filesystem *FilesystemStatus `json:"filesystem,omitempty"`
	// Conditions are ReadyToUse.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Snapshot is a snapshot of a Volume or of a logical volume's NVMePartition.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=distort
// +kubebuilder:selectablefield:JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.source.name`
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.readyToUse`
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.status.size`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Snapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SnapshotSpec `json:"spec"`
	// +optional
	Status SnapshotStatus `json:"status,omitempty"`
}

// SnapshotList is a list of Snapshot.
// +kubebuilder:object:root=true
type SnapshotList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Snapshot `json:"items"`
}
