package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VolumeType is what a Volume is made of.
// +kubebuilder:validation:Enum=block;filesystem
type VolumeType string

// Volume types.
const (
	// VolumeBlock is a zvol, exported over NVMe-oF.
	VolumeBlock VolumeType = "block"
	// VolumeFilesystem is a dataset, exported over NFS.
	VolumeFilesystem VolumeType = "filesystem"
)

// VolumeState sums a Volume up in one word.
// +kubebuilder:validation:Enum=Pending;Ready;ReadyToPublish;Deleting;Destroyed;Error
type VolumeState string

// Volume states.
const (
	VolumePending        VolumeState = "Pending"
	VolumeReady          VolumeState = "Ready"
	VolumeReadyToPublish VolumeState = "ReadyToPublish"
	VolumeDeleting       VolumeState = "Deleting"
	VolumeDestroyed      VolumeState = "Destroyed"
	VolumeError          VolumeState = "Error"
)

// Provenance tells how a volume came to be known.
// +kubebuilder:validation:Enum=Dynamic;Imported
type Provenance string

// Provenances.
const (
	ProvenanceDynamic  Provenance = "Dynamic"
	ProvenanceImported Provenance = "Imported"
)

// DeletionPolicy tells what becomes of the data when the object goes.
// +kubebuilder:validation:Enum=Delete;Retain
type DeletionPolicy string

// Deletion policies.
const (
	DeletionDelete DeletionPolicy = "Delete"
	DeletionRetain DeletionPolicy = "Retain"
)

// Reasons of condition Provisioned of a Volume, besides those of an NVMePartition.
// Written by distort-agent.
const (
	// ReasonPoolNotOwned (retryable): the pool is not one that this node declares, or
	// the pools that are imported are not the declared ones. Nothing is created,
	// exported or destroyed.
	ReasonPoolNotOwned = "PoolNotOwned"
	// ReasonPoolUnavailable (retryable): the pool is not imported, is suspended or
	// does not answer.
	ReasonPoolUnavailable = "PoolUnavailable"
	// ReasonDatasetRefused (terminal): a dataset of the volume's name exists and is
	// not the volume's.
	ReasonDatasetRefused = "DatasetRefused"
	// ReasonUnsupported (terminal): this agent cannot make such a volume.
	ReasonUnsupported = "Unsupported"
)

// Condition Modified of a Volume: the zvol has the properties that the spec asks for
// by now. Only volumes that were asked to change have it; observedGeneration says which
// spec it speaks of. Written by distort-agent.
const (
	ConditionModified = "Modified"
	// ReasonModified: the properties were read back.
	ReasonModified = "Modified"
	// ReasonModifyFailed (retryable): ZFS failed; the message says how. The volume
	// serves as it is.
	ReasonModifyFailed = "ModifyFailed"
	// ReasonModifyRefused (terminal until spec changes): ZFS does not take the value.
	ReasonModifyRefused = "ModifyRefused"
)

// NFSAccessMode is what clients of an NFS export may do.
// +kubebuilder:validation:Enum=ro;rw
type NFSAccessMode string

// NFS access modes.
const (
	NFSReadOnly  NFSAccessMode = "ro"
	NFSReadWrite NFSAccessMode = "rw"
)

// NFSExport says who may mount a dataset.
type NFSExport struct {
	// CIDRs are the networks of the clients.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=49
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self)",message="must be an IPv4 or IPv6 network such as 10.0.0.0/24"
	// +listType=set
	CIDRs []string `json:"cidrs"`
	// AccessMode of the export.
	// +kubebuilder:default=rw
	// +optional
	AccessMode NFSAccessMode `json:"accessMode,omitempty"`
	// RootSquash maps a client's root to nobody.
	// +kubebuilder:default=true
	// +optional
	RootSquash *bool `json:"rootSquash,omitempty"`
}

// VolumeSpec is written by distort-csi or by an import, but for the placement
// fields.
// +kubebuilder:validation:XValidation:rule="self.type == oldSelf.type",message="type is immutable"
// +kubebuilder:validation:XValidation:rule="self.transport == oldSelf.transport",message="transport is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.fsType) == has(oldSelf.fsType) && (!has(self.fsType) || self.fsType == oldSelf.fsType)",message="fsType is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.volBlockSize) == has(oldSelf.volBlockSize) && (!has(self.volBlockSize) || self.volBlockSize == oldSelf.volBlockSize)",message="volBlockSize is immutable"
// +kubebuilder:validation:XValidation:rule="self.provenance == oldSelf.provenance",message="provenance is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.sourceSnapshot) == has(oldSelf.sourceSnapshot) && (!has(self.sourceSnapshot) || self.sourceSnapshot == oldSelf.sourceSnapshot)",message="sourceSnapshot is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.sourceVolume) == has(oldSelf.sourceVolume) && (!has(self.sourceVolume) || self.sourceVolume == oldSelf.sourceVolume)",message="sourceVolume is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.topology) == has(oldSelf.topology) && (!has(self.topology) || self.topology == oldSelf.topology)",message="topology is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.requestFingerprint) == has(oldSelf.requestFingerprint) && (!has(self.requestFingerprint) || self.requestFingerprint == oldSelf.requestFingerprint)",message="requestFingerprint is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.ownerNode) == has(self.poolGUID) && has(self.ownerNode) == has(self.networkDomain)",message="ownerNode, poolGUID and networkDomain are set together"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.ownerNode) || (has(self.ownerNode) && self.ownerNode == oldSelf.ownerNode && self.poolGUID == oldSelf.poolGUID && self.networkDomain == oldSelf.networkDomain)",message="ownerNode, poolGUID and networkDomain are immutable once set"
// +kubebuilder:validation:XValidation:rule="(self.type == 'filesystem') == (self.transport == 'nfs')",message="type filesystem needs transport nfs, and type block needs nvme-tcp or nvme-rdma"
// +kubebuilder:validation:XValidation:rule="(self.type == 'filesystem') == has(self.nfsExport)",message="nfsExport must be set for type filesystem and absent for block"
// +kubebuilder:validation:XValidation:rule="self.type == 'block' || (!has(self.fsType) && !has(self.volBlockSize))",message="fsType and volBlockSize need type block"
// +kubebuilder:validation:XValidation:rule="has(self.accessMode) == has(oldSelf.accessMode) && (!has(self.accessMode) || self.accessMode == oldSelf.accessMode)",message="accessMode is immutable"
// +kubebuilder:validation:XValidation:rule="!has(self.accessMode) || self.accessMode != 'ReadWriteMany' || self.type == 'filesystem' || !has(self.fsType)",message="accessMode ReadWriteMany of a block volume needs no fsType: a filesystem on a block device has one writer"
// +kubebuilder:validation:XValidation:rule="!has(self.sourceSnapshot) || !has(self.sourceVolume)",message="at most one of sourceSnapshot and sourceVolume may be set"
// +kubebuilder:validation:XValidation:rule="(self.provenance == 'Dynamic') == has(self.requestFingerprint)",message="requestFingerprint must be set for provenance Dynamic and absent for Imported"
type VolumeSpec struct {
	// Type of the volume.
	Type VolumeType `json:"type"`
	// Capacity in bytes, a multiple of 4 MiB for a dynamic volume. It may grow; a
	// growth that was not possible is withdrawn by setting it back, at most to
	// status.actualCapacity.
	// +kubebuilder:validation:Minimum=1
	Capacity int64 `json:"capacity"`
	// Transport of the export.
	Transport EndpointProtocol `json:"transport"`
	// AccessMode is who may use the volume at once; absent means ReadWriteOnce.
	// +optional
	AccessMode AccessMode `json:"accessMode,omitempty"`
	// FSType is the filesystem on a block volume; absent for a raw one.
	// +optional
	FSType FilesystemType `json:"fsType,omitempty"`
	// VolBlockSize of the zvol in bytes, a power of two from 512 to 128 KiB.
	// +kubebuilder:validation:Enum=512;1024;2048;4096;8192;16384;32768;65536;131072
	// +optional
	VolBlockSize int32 `json:"volBlockSize,omitempty"`
	// Compression is the ZFS property of that name; absent leaves it to the pool. It may
	// change, and then holds for what is written from then on.
	// +kubebuilder:validation:Pattern=`^(on|off|lz4|lzjb|zle|gzip(-[1-9])?|zstd(-([1-9]|1[0-9]))?|zstd-fast(-([1-9]|10|20|30|40|50|60|70|80|90|100|500|1000))?)$`
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Compression string `json:"compression,omitempty"`
	// SourceSnapshot is what the volume is restored from.
	// +optional
	SourceSnapshot *SnapshotReference `json:"sourceSnapshot,omitempty"`
	// SourceVolume is what the volume is cloned from.
	// +optional
	SourceVolume *VolumeReference `json:"sourceVolume,omitempty"`
	// NFSExport says who may mount a volume of type filesystem.
	// +optional
	NFSExport *NFSExport `json:"nfsExport,omitempty"`
	// Provenance tells how the volume came to be known.
	Provenance Provenance `json:"provenance"`
	// DeletionPolicy tells what becomes of the data.
	DeletionPolicy DeletionPolicy `json:"deletionPolicy"`
	// Topology says from where the volume must be reachable.
	// +optional
	Topology *TopologyRequirement `json:"topology,omitempty"`
	// RequestFingerprint tells a retry of the request from another one.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +kubebuilder:validation:MaxLength=64
	// +optional
	RequestFingerprint string `json:"requestFingerprint,omitempty"`

	// OwnerNode is the StorageNode. Set once by placement, together with PoolGUID
	// and NetworkDomain.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	OwnerNode string `json:"ownerNode,omitempty"`
	// PoolGUID is the pool.
	// +optional
	PoolGUID PoolGUID `json:"poolGUID,omitempty"`
	// NetworkDomain is the owner's network domain.
	// +optional
	NetworkDomain DomainName `json:"networkDomain,omitempty"`
}

// VolumeStatus is written by distort-agent.
type VolumeStatus struct {
	// State sums the conditions up in one word.
	// +optional
	State VolumeState `json:"state,omitempty"`
	// TargetNQN, PortalHost, PortalPort and DeviceGUID are the NVMe-oF export: the
	// subsystem, the first of Portals, and the UUID of the namespace.
	// +optional
	TargetNQN string `json:"targetNQN,omitempty"`
	// +optional
	PortalHost string `json:"portalHost,omitempty"`
	// +optional
	PortalPort int32 `json:"portalPort,omitempty"`
	// +optional
	DeviceGUID string `json:"deviceGUID,omitempty"`
	// Portals are all the addresses where the target listens.
	// +listType=atomic
	// +optional
	Portals []Portal `json:"portals,omitempty"`
	// NFSServer and ExportPath are the NFS export.
	// +optional
	NFSServer string `json:"nfsServer,omitempty"`
	// +optional
	ExportPath string `json:"exportPath,omitempty"`
	// DatasetPath is the zvol or dataset, below <pool>/distort.
	// +optional
	DatasetPath string `json:"datasetPath,omitempty"`
	// DatasetGUID is the ZFS GUID of the zvol or dataset: the exact thing that was
	// made. Deletion goes by it and never by a name that merely matches.
	// +kubebuilder:validation:MaxLength=20
	// +optional
	DatasetGUID string `json:"datasetGUID,omitempty"`
	// ActualCapacity was read back, in bytes.
	// +optional
	ActualCapacity int64 `json:"actualCapacity,omitempty"`
	// AccountedGeneration is the first sample generation that contained the
	// volume; recorded once.
	// +optional
	AccountedGeneration int64 `json:"accountedGeneration,omitempty"`
	// Filesystem is the format record, copied from the attachment whose node
	// made it.
	// +optional
	Filesystem *FilesystemStatus `json:"filesystem,omitempty"`
	// Compression is the value of spec.compression that was last read back from the
	// zvol, in the word that the spec has for it.
	// +optional
	Compression string `json:"compression,omitempty"`
	// Conditions are Placed, Provisioned, Exported, Resized and Modified.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Volume is a volume of the pool family: a zvol or dataset of one ZFS pool.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=distort
// +kubebuilder:validation:XValidation:rule="self.spec.capacity >= oldSelf.spec.capacity || (has(oldSelf.status) && has(oldSelf.status.actualCapacity) && self.spec.capacity >= oldSelf.status.actualCapacity)",fieldPath=".spec.capacity",message="capacity may only grow, or go back to no less than status.actualCapacity"
// +kubebuilder:selectablefield:JSONPath=`.spec.ownerNode`
// +kubebuilder:selectablefield:JSONPath=`.spec.poolGUID`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Capacity",type=integer,JSONPath=`.spec.capacity`
// +kubebuilder:printcolumn:name="Transport",type=string,JSONPath=`.spec.transport`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.ownerNode`
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.poolGUID`,priority=1
// +kubebuilder:printcolumn:name="Dataset",type=string,JSONPath=`.status.datasetPath`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Volume struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec VolumeSpec `json:"spec"`
	// +optional
	Status VolumeStatus `json:"status,omitempty"`
}

// VolumeList is a list of Volume.
// +kubebuilder:object:root=true
type VolumeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Volume `json:"items"`
}
