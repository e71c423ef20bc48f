package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition Adopted of a VolumeImport: a Volume stands for the dataset.
const (
	ConditionAdopted = "Adopted"
	// ReasonAdopted: the Volume exists and its dataset was found.
	ReasonAdopted = "Adopted"
	// ReasonDatasetNotFound (retryable): the pool has no such dataset.
	ReasonDatasetNotFound = "DatasetNotFound"
	// ReasonDatasetTypeMismatch (terminal): the dataset is not of the declared
	// type.
	ReasonDatasetTypeMismatch = "DatasetTypeMismatch"
	// ReasonAlreadyAdopted (terminal): another Volume stands for the dataset.
	ReasonAlreadyAdopted = "AlreadyAdopted"
)

// VolumeImportSpec is written by an administrator and never changes, but for
// the deletion policy.
// +kubebuilder:validation:XValidation:rule="self.ownerNode == oldSelf.ownerNode && self.poolGUID == oldSelf.poolGUID && self.dataset == oldSelf.dataset && self.type == oldSelf.type && self.transport == oldSelf.transport",message="ownerNode, poolGUID, dataset, type and transport are immutable"
// +kubebuilder:validation:XValidation:rule="has(self.nfsExport) == has(oldSelf.nfsExport) && (!has(self.nfsExport) || self.nfsExport == oldSelf.nfsExport)",message="nfsExport is immutable"
// +kubebuilder:validation:XValidation:rule="(self.type == 'filesystem') == (self.transport == 'nfs')",message="type filesystem needs transport nfs, and type block needs nvme-tcp or nvme-rdma"
// +kubebuilder:validation:XValidation:rule="(self.type == 'filesystem') == has(self.nfsExport)",message="nfsExport must be set for type filesystem and absent for block"
type VolumeImportSpec struct {
	// OwnerNode is the StorageNode that owns the pool.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	OwnerNode string `json:"ownerNode"`
	// PoolGUID is the pool.
	PoolGUID PoolGUID `json:"poolGUID"`
	// Dataset is the path of the zvol or dataset below the pool, without the
	// pool's name.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9_.:-]*(/[A-Za-z0-9][A-Za-z0-9_.:-]*)*$`
	// +kubebuilder:validation:MaxLength=200
	Dataset string `json:"dataset"`
	// Type of the dataset.
	Type VolumeType `json:"type"`
	// Transport of the export.
	Transport EndpointProtocol `json:"transport"`
	// NFSExport says who may mount a dataset of type filesystem.
	// +optional
	NFSExport *NFSExport `json:"nfsExport,omitempty"`
	// DeletionPolicy is Retain unless said otherwise: de-adoption removes
	// transport state and never data.
	// +kubebuilder:default=Retain
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// VolumeImportStatus is written by distort-manager.
type VolumeImportStatus struct {
	// VolumeName is the Volume that stands for the dataset.
	// +optional
	VolumeName string `json:"volumeName,omitempty"`
	// Conditions are Adopted.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// VolumeImport adopts an existing zvol or dataset.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=distort
// +kubebuilder:selectablefield:JSONPath=`.spec.ownerNode`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.ownerNode`
// +kubebuilder:printcolumn:name="Dataset",type=string,JSONPath=`.spec.dataset`
// +kubebuilder:printcolumn:name="Volume",type=string,JSONPath=`.status.volumeName`
// +kubebuilder:printcolumn:name="Adopted",type=string,JSONPath=`.status.conditions[?(@.type=="Adopted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VolumeImport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec VolumeImportSpec `json:"spec"`
	// +optional
	Status VolumeImportStatus `json:"status,omitempty"`
}

// VolumeImportList is a list of VolumeImport.
// +kubebuilder:object:root=true
type VolumeImportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VolumeImport `json:"items"`
}
