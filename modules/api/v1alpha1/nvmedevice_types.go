package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeviceState tells whether a drive can be claimed.
// +kubebuilder:validation:Enum=Available;Claimed;Unavailable
type DeviceState string

// Device states.
const (
	DeviceAvailable   DeviceState = "Available"
	DeviceClaimed     DeviceState = "Claimed"
	DeviceUnavailable DeviceState = "Unavailable"
)

// ActiveBackend is the lock between backends on one drive: it changes only
// while the drive holds no partition (design.md §6).
// +kubebuilder:validation:Enum=none;kernel;spdk
type ActiveBackend string

// Active backends.
const (
	ActiveBackendNone   ActiveBackend = "none"
	ActiveBackendKernel ActiveBackend = "kernel"
	ActiveBackendSPDK   ActiveBackend = "spdk"
)

// Condition HardwareAvailable of an NVMeDevice: a complete scan of its node saw
// the drive. Written by distort-agent.
const (
	ConditionHardwareAvailable = "HardwareAvailable"
	// ReasonDiscovered: the last scan saw the drive.
	ReasonDiscovered = "Discovered"
	// ReasonNotFound: a complete scan did not see the drive.
	ReasonNotFound = "NotFound"
	// ReasonDuplicateSerial: another drive reports the same serial number; both
	// are refused.
	ReasonDuplicateSerial = "DuplicateSerial"
	// ReasonNoNamespace: the controller has no usable namespace 1.
	ReasonNoNamespace = "NoNamespace"
)

// Condition MediaUsable of an NVMeDevice: the drive carries nothing that
// DISTORT did not write. Written by distort-agent.
const (
	ConditionMediaUsable = "MediaUsable"
	// ReasonBlank: neither blkid nor wipefs finds a signature.
	ReasonBlank = "Blank"
	// ReasonOwnLabel: the drive has the partition table that DISTORT wrote.
	ReasonOwnLabel = "OwnLabel"
	// ReasonForeignSignature: somebody else's data; the message names it.
	ReasonForeignSignature = "ForeignSignature"
	// ReasonInUse: the drive or a part of it is mounted, held or swapped to.
	ReasonInUse = "InUse"
	// ReasonProbeFailed: the drive could not be read.
	ReasonProbeFailed = "ProbeFailed"
)

// Condition Audited of an NVMeDevice: what its partition table holds is what
// the NVMePartitions on the drive say. Only drives that are blank or have
// DISTORT's partition table have it. Written by distort-agent.
const (
	ConditionAudited = "Audited"
	// ReasonAuditClean: table and objects agree.
	ReasonAuditClean = "Clean"
	// ReasonStrangersFound: there is something that no object asks for; the message
	// names it. It is never touched.
	ReasonStrangersFound = "StrangersFound"
	// ReasonPartsMissing: something that objects ask for is not there and could not
	// be made good; the message names it, and the objects' own conditions say more.
	ReasonPartsMissing = "PartsMissing"
)

// NVMeDeviceSpec is what distort-agent found.
// +kubebuilder:validation:XValidation:rule="self.nodeName == oldSelf.nodeName",message="nodeName is immutable"
// +kubebuilder:validation:XValidation:rule="self.serialNumber == oldSelf.serialNumber",message="serialNumber is immutable"
type NVMeDeviceSpec struct {
	// NodeName is the node that the drive is in.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`
	// PCIAddress is the drive's PCI function, such as 0000:3b:00.0. It may
	// change when the drive moves to another slot.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`
	// +kubebuilder:validation:MaxLength=16
	PCIAddress string `json:"pciAddress"`
	// SerialNumber is the exact serial number: the drive's identity.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=20
	SerialNumber string `json:"serialNumber"`
	// Model is the drive's model number.
	// +kubebuilder:validation:MaxLength=40
	// +optional
	Model string `json:"model,omitempty"`
	// TotalCapacity is the allocatable size in bytes of namespace 1
	// (capacity.Allocatable). Other namespaces are never touched.
	// +kubebuilder:validation:Minimum=0
	TotalCapacity int64 `json:"totalCapacity"`
	// NUMANode is the NUMA node of the drive's slot; absent when unknown.
	// +kubebuilder:validation:Minimum=0
	// +optional
	NUMANode *int32 `json:"numaNode,omitempty"`
}

// MaxReservations is how many partitions a drive can hold at most.
const MaxReservations = 1024

// Reservation is the space on a drive that one partition has, or is about to get.
type Reservation struct {
	// The partition, in one life.
	ObjectReference `json:",inline"`
	// Size in bytes that is kept for the partition.
	// +kubebuilder:validation:Minimum=0
	Size int64 `json:"size"`
	// TargetBackend of the partition: a drive has partitions of one backend.
	TargetBackend TargetBackend `json:"targetBackend"`
}

// NVMeDeviceStatus is who owns the drive and what is left of it.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.claimRef) || (has(self.claimRef) && self.claimRef == oldSelf.claimRef) || !has(self.reservations) || size(self.reservations) == 0",message="claimRef is immutable while the drive has reservations"
type NVMeDeviceStatus struct {
	// State tells whether the drive can be claimed. Written by distort-manager.
	// +optional
	State DeviceState `json:"state,omitempty"`
	// ClaimRef is the claim that owns the drive. Written by distort-manager.
	// +optional
	ClaimRef *ObjectReference `json:"claimRef,omitempty"`
	// FreeCapacity is what placement can still give in bytes. Written by
	// distort-manager.
	// +kubebuilder:validation:Minimum=0
	// +optional
	FreeCapacity *int64 `json:"freeCapacity,omitempty"`
	// Reservations are the partitions that have space on the drive, in the order
	// of their UIDs. A reservation is written, under the resourceVersion that the
	// decision was made with, before the partition is placed; so there is no
	// placed partition without one, and whoever adds one has seen all others. It
	// goes when its partition is gone or is placed elsewhere. Written by
	// distort-manager.
	// +kubebuilder:validation:MaxItems=1024
	// The API server refuses a second one of the same UID.
	// +listType=map
	// +listMapKey=uid
	// +optional
	Reservations []Reservation `json:"reservations,omitempty"`
	// LargestFreeExtent is the largest contiguous space in bytes that one new
	// partition could get, as distort-agent last saw it: partitions that are
	// placed but not carved yet are still to come out of it, and what was carved
	// since the agent's last scan too. 0 or absent means that it is not known.
	// Written by distort-agent.
	// +kubebuilder:validation:Minimum=0
	// +optional
	LargestFreeExtent int64 `json:"largestFreeExtent,omitempty"`
	// ActiveBackend is the backend that has partitions on the drive. Written by
	// distort-agent.
	// +optional
	ActiveBackend ActiveBackend `json:"activeBackend,omitempty"`
	// Conditions are HardwareAvailable, MediaUsable and Audited. Written by
	// distort-agent.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NVMeDevice is a local NVMe drive of a storage node.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=distort
// +kubebuilder:selectablefield:JSONPath=`.spec.nodeName`
// +kubebuilder:selectablefield:JSONPath=`.spec.serialNumber`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Serial",type=string,JSONPath=`.spec.serialNumber`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.status.claimRef.name`
// +kubebuilder:printcolumn:name="Backend",type=string,JSONPath=`.status.activeBackend`
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.spec.totalCapacity`
// +kubebuilder:printcolumn:name="Free",type=integer,JSONPath=`.status.freeCapacity`
// +kubebuilder:printcolumn:name="Media",type=string,JSONPath=`.status.conditions[?(@.type=="MediaUsable")].reason`,priority=1
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.model`,priority=1
// +kubebuilder:printcolumn:name="PCI",type=string,JSONPath=`.spec.pciAddress`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NVMeDevice struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NVMeDeviceSpec `json:"spec"`
	// +optional
	Status NVMeDeviceStatus `json:"status,omitempty"`
}

// NVMeDeviceList is a list of NVMeDevice.
// +kubebuilder:object:root=true
type NVMeDeviceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NVMeDevice `json:"items"`
}
