package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PartitionState sums an NVMePartition up in one word.
// +kubebuilder:validation:Enum=Pending;Creating;Exported;Failed
type PartitionState string

// Partition states.
const (
	PartitionPending  PartitionState = "Pending"
	PartitionCreating PartitionState = "Creating"
	PartitionExported PartitionState = "Exported"
	// PartitionFailed: a person must act; the conditions say why.
	PartitionFailed PartitionState = "Failed"
)

// VolumeManager is what carves a slice out of a drive.
// +kubebuilder:validation:Enum=partition
type VolumeManager string

// VolumeManagerPartition carves a GPT partition with the kernel backend and a
// logical volume with SPDK.
const VolumeManagerPartition VolumeManager = "partition"

// Condition Placed of an NVMePartition: node, drive and claim are chosen.
// False is written by distort-manager, True by distort-agent with the rest of
// what it observed, so that placing costs one write.
const (
	ConditionPlaced = "Placed"
	// ReasonPlaced: spec names node, drive and claim.
	ReasonPlaced = "Placed"
	// ReasonNoCandidate (retryable): no drive can hold the partition; the message
	// counts the reasons.
	ReasonNoCandidate = "NoCandidate"
)

// Condition ClaimAuthorized of an NVMePartition: the live claim on the drive is
// the one that placement chose. Written by distort-agent.
const (
	ConditionClaimAuthorized = "ClaimAuthorized"
	// ReasonClaimMatches: namespace, name and UID of the claim match.
	ReasonClaimMatches = "ClaimMatches"
	// ReasonClaimMismatch (terminal): the drive belongs to another claim.
	ReasonClaimMismatch = "ClaimMismatch"
	// ReasonDeviceMissing (retryable): the drive is not in this node now.
	ReasonDeviceMissing = "DeviceMissing"
)

// Condition Provisioned of an NVMePartition: its capacity is carved. Written by
// distort-agent.
const (
	ConditionProvisioned = "Provisioned"
	// ReasonCarved: the partition was read back.
	ReasonCarved = "Carved"
	// ReasonNoSpace (terminal): no gap of the drive is large enough.
	ReasonNoSpace = "NoSpace"
	// ReasonDriveRefused (terminal): the drive carries somebody else's data, or
	// is in use; the message names it.
	ReasonDriveRefused = "DriveRefused"
	// ReasonDataLoss (terminal): a recorded slice is not on the drive any more; it
	// is never made anew under the same identity.
	ReasonDataLoss = "DataLoss"
	// ReasonCarveFailed (retryable): the tools failed; the message says how.
	ReasonCarveFailed = "CarveFailed"
	// ReasonBackendUnsupported (terminal): this agent does not have the backend.
	ReasonBackendUnsupported = "BackendUnsupported"
)

// Condition Exported of an NVMePartition: the target was read back and is
// exactly as it should be. Written by distort-agent.
const (
	ConditionExported = "Exported"
	// ReasonExported: the target listens on every portal.
	ReasonExported = "Exported"
	// ReasonNoPortal (retryable): the node has no usable address for the
	// transport.
	ReasonNoPortal = "NoPortal"
	// ReasonExportFailed (retryable): the target refused; the message says what.
	ReasonExportFailed = "ExportFailed"
	// ReasonDeleting: the partition is being deleted; the message says what it
	// waits for.
	ReasonDeleting = "Deleting"
	// ReasonHostsConnected: the partition is being deleted, and stays as long as
	// hosts are connected to its export, whom no attachment admits; the message
	// names them.
	ReasonHostsConnected = "HostsConnected"
)

// Condition Resized of an NVMePartition: the slice has the size that spec asks
// for, and the target serves all of it. Only partitions that were asked to grow
// have it; observedGeneration says which spec it speaks of. Written by
// distort-agent.
const (
	ConditionResized = "Resized"
	// ReasonResized: slice and target were read back with the new size.
	ReasonResized = "Resized"
	// ReasonGrowthNoSpace (terminal until space behind the slice becomes free, or
	// spec changes): the space behind the slice does not suffice, or is kept for
	// partitions that were placed before; the message has the numbers. Nothing was
	// changed.
	ReasonGrowthNoSpace = "GrowthNoSpace"
	// ReasonResizeFailed (retryable): tools or target failed; the message says how.
	ReasonResizeFailed = "ResizeFailed"
)

// TargetOptions are options of one backend.
type TargetOptions struct {
	// SPDKCoreMask is the core mask that SPDK's reactors run on, such as 0x3.
	// +kubebuilder:validation:Pattern=`^0x[0-9a-fA-F]{1,32}$`
	// +optional
	SPDKCoreMask string `json:"spdkCoreMask,omitempty"`
}

// VolumeSource is what a new volume is a copy of.
// +kubebuilder:validation:XValidation:rule="has(self.snapshot) != has(self.volume)",message="exactly one of snapshot and volume must be set"
type VolumeSource struct {
	// Snapshot to restore.
	// +optional
	Snapshot *SnapshotReference `json:"snapshot,omitempty"`
	// Volume to clone.
	// +optional
	Volume *VolumeReference `json:"volume,omitempty"`
}

// NVMePartitionSpec is written by distort-csi, but for the placement fields.
// +kubebuilder:validation:XValidation:rule="self.targetBackend == oldSelf.targetBackend",message="targetBackend is immutable"
// +kubebuilder:validation:XValidation:rule="self.volumeManager == oldSelf.volumeManager",message="volumeManager is immutable"
// +kubebuilder:validation:XValidation:rule="self.transport == oldSelf.transport",message="transport is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.targetOptions) == has(oldSelf.targetOptions) && (!has(self.targetOptions) || self.targetOptions == oldSelf.targetOptions)",message="targetOptions is immutable"
// +kubebuilder:validation:XValidation:rule="self.accessMode == oldSelf.accessMode",message="accessMode is immutable"
// +kubebuilder:validation:XValidation:rule="self.accessType == oldSelf.accessType",message="accessType is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.filesystem) == has(oldSelf.filesystem) && (!has(self.filesystem) || self.filesystem == oldSelf.filesystem)",message="filesystem is immutable"
// +kubebuilder:validation:XValidation:rule="self.requestFingerprint == oldSelf.requestFingerprint",message="requestFingerprint is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.topology) == has(oldSelf.topology) && (!has(self.topology) || self.topology == oldSelf.topology)",message="topology is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.source) == has(oldSelf.source) && (!has(self.source) || self.source == oldSelf.source)",message="source is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.nodeName) == has(self.parentDeviceSerialNumber) && has(self.nodeName) == has(self.claimRef)",message="nodeName, parentDeviceSerialNumber and claimRef are set together"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.nodeName) || (has(self.nodeName) && self.nodeName == oldSelf.nodeName && self.parentDeviceSerialNumber == oldSelf.parentDeviceSerialNumber && self.claimRef == oldSelf.claimRef)",message="nodeName, parentDeviceSerialNumber and claimRef are immutable once set"
// +kubebuilder:validation:XValidation:rule="(self.accessType == 'mount') == has(self.filesystem)",message="filesystem must be set for accessType mount and absent for block"
// +kubebuilder:validation:XValidation:rule="self.accessMode != 'ReadWriteMany' || self.accessType == 'block'",message="accessMode ReadWriteMany needs accessType block: a filesystem has one writer"
// +kubebuilder:validation:XValidation:rule="!has(self.targetOptions) || !has(self.targetOptions.spdkCoreMask) || self.targetBackend == 'spdk'",message="targetOptions.spdkCoreMask needs targetBackend spdk"
type NVMePartitionSpec struct {
	// Size in bytes, a multiple of 4 MiB. It may grow; a growth that was not
	// possible is withdrawn by setting it back, at most to
	// status.allocatedCapacity.
	// +kubebuilder:validation:Minimum=4194304
	// +kubebuilder:validation:MultipleOf=4194304
	Size int64 `json:"size"`
	// TargetBackend exports the partition.
	TargetBackend TargetBackend `json:"targetBackend"`
	// VolumeManager carves the partition.
	// +kubebuilder:default=partition
	// +optional
	VolumeManager VolumeManager `json:"volumeManager,omitempty"`
	// Transport of the export.
	Transport Transport `json:"transport"`
	// TargetOptions are options of the backend.
	// +optional
	TargetOptions *TargetOptions `json:"targetOptions,omitempty"`
	// AccessMode is who may use the volume at once.
	AccessMode AccessMode `json:"accessMode"`
	// AccessType is how a pod sees the volume.
	AccessType AccessType `json:"accessType"`
	// Filesystem is made once, for accessType mount.
	// +optional
	Filesystem FilesystemType `json:"filesystem,omitempty"`
	// RequestFingerprint tells a retry of the request from another one
	// (handle.Fingerprint).
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +kubebuilder:validation:MaxLength=64
	RequestFingerprint string `json:"requestFingerprint"`
	// Topology says from where the volume must be reachable.
	// +optional
	Topology *TopologyRequirement `json:"topology,omitempty"`
	// Source is what the volume is a copy of.
	// +optional
	Source *VolumeSource `json:"source,omitempty"`

	// NodeName is the storage node. Set once by distort-manager, together with
	// ParentDeviceSerialNumber and ClaimRef.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// ParentDeviceSerialNumber is the drive.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=20
	// +optional
	ParentDeviceSerialNumber string `json:"parentDeviceSerialNumber,omitempty"`
	// ClaimRef is the claim by which the drive may be used.
	// +optional
	ClaimRef *ObjectReference `json:"claimRef,omitempty"`
}

// BackendIdentity is the exact thing that was carved. Deletion goes by it and
// never by a name that merely matches.
type BackendIdentity struct {
	// PartitionUUID is the unique GUID of the GPT partition (kernel backend).
	// +optional
	PartitionUUID string `json:"partitionUUID,omitempty"`
	// LvstoreName and LvstoreUUID are the logical volume store (SPDK backend).
	// +optional
	LvstoreName string `json:"lvstoreName,omitempty"`
	// +optional
	LvstoreUUID string `json:"lvstoreUUID,omitempty"`
	// LvolName and LvolUUID are the logical volume (SPDK backend).
	// +optional
	LvolName string `json:"lvolName,omitempty"`
	// +optional
	LvolUUID string `json:"lvolUUID,omitempty"`
}

// NVMePartitionStatus is written by distort-agent, but for condition
// Placed=False.
type NVMePartitionStatus struct {
	// State sums the conditions up in one word.
	// +optional
	State PartitionState `json:"state,omitempty"`
	// ExternalID names the volume outside Kubernetes (identity.ExternalID).
	// +optional
	ExternalID string `json:"externalID,omitempty"`
	// VolumeHandle is the CSI volume ID (package handle).
	// +optional
	VolumeHandle string `json:"volumeHandle,omitempty"`
	// AllocatedCapacity is what was carved and read back, in bytes.
	// +optional
	AllocatedCapacity int64 `json:"allocatedCapacity,omitempty"`
	// Backend is the exact thing that was carved.
	// +optional
	Backend *BackendIdentity `json:"backend,omitempty"`
	// NQN of the subsystem.
	// +optional
	NQN string `json:"nqn,omitempty"`
	// NamespaceUUID and NamespaceNGUID are the identity of the NVMe namespace.
	// +optional
	NamespaceUUID string `json:"namespaceUUID,omitempty"`
	// +optional
	NamespaceNGUID string `json:"namespaceNGUID,omitempty"`
	// Portals are the addresses where the target listens.
	// +listType=atomic
	// +optional
	Portals []Portal `json:"portals,omitempty"`
	// Zeroed is true when the backend is known to return zeros for what was
	// never written.
	// +optional
	Zeroed bool `json:"zeroed,omitempty"`
	// Filesystem is the format record, copied from the attachment whose node
	// made it, at the latest before that attachment goes.
	// +optional
	Filesystem *FilesystemStatus `json:"filesystem,omitempty"`
	// Conditions are ClaimAuthorized, Placed, Provisioned, Exported and Resized.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NVMePartition is a volume of the device family: a slice of one drive,
// exported over NVMe-oF.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,categories=distort
// +kubebuilder:validation:XValidation:rule="self.spec.size >= oldSelf.spec.size || (has(oldSelf.status) && has(oldSelf.status.allocatedCapacity) && self.spec.size >= oldSelf.status.allocatedCapacity)",fieldPath=".spec.size",message="size may only grow, or go back to no less than status.allocatedCapacity"
// +kubebuilder:selectablefield:JSONPath=`.spec.nodeName`
// +kubebuilder:selectablefield:JSONPath=`.spec.parentDeviceSerialNumber`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name="Backend",type=string,JSONPath=`.spec.targetBackend`
// +kubebuilder:printcolumn:name="Transport",type=string,JSONPath=`.spec.transport`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Drive",type=string,JSONPath=`.spec.parentDeviceSerialNumber`
// +kubebuilder:printcolumn:name="NQN",type=string,JSONPath=`.status.nqn`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NVMePartition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NVMePartitionSpec `json:"spec"`
	// +optional
	Status NVMePartitionStatus `json:"status,omitempty"`
}

// NVMePartitionList is a list of NVMePartition.
// +kubebuilder:object:root=true
type NVMePartitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NVMePartition `json:"items"`
}
