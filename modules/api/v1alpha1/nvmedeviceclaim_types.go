package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition Bound of an NVMeDeviceClaim: the claim owns its drive.
const (
	ConditionBound = "Bound"
	// ReasonBound: the drive's claimRef names this claim.
	ReasonBound = "Bound"
	// ReasonDeviceNotFound: no drive has the serial number; the claim waits.
	ReasonDeviceNotFound = "DeviceNotFound"
	// ReasonClaimedByAnother: another claim owns the drive; the message names it.
	ReasonClaimedByAnother = "ClaimedByAnother"
	// ReasonDuplicateDevices: several drives have the serial number; the message
	// names their nodes and none is bound.
	ReasonDuplicateDevices = "DuplicateDevices"
	// ReasonDriveNotBlank: the drive carries data that DISTORT did not write; the
	// message names the signature. It is never wiped.
	ReasonDriveNotBlank = "DriveNotBlank"
	// ReasonDriveUnavailable: the drive was found but cannot be used now.
	ReasonDriveUnavailable = "DriveUnavailable"
	// ReasonDriveNotEmpty: the drive holds partitions that were placed by another
	// claim or in another node; the message names them.
	ReasonDriveNotEmpty = "DriveNotEmpty"
	// ReasonDriveMoved (with status True): the drive is in another node now. The
	// claim keeps it where it was, because it holds the partitions that the message
	// names or cannot be used there; it follows the drive once it can.
	ReasonDriveMoved = "DriveMoved"
	// ReasonPartitionsRemain: the claim is being deleted and waits for the
	// partitions that the message lists.
	ReasonPartitionsRemain = "PartitionsRemain"
)

// NVMeDeviceClaimSpec says which drive DISTORT may use.
type NVMeDeviceClaimSpec struct {
	// SerialNumber is the exact serial number of the drive.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:Pattern=`^[!-~]([ -~]*[!-~])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="serialNumber is immutable"
	SerialNumber string `json:"serialNumber"`
}

// NVMeDeviceClaimStatus is written by distort-manager.
type NVMeDeviceClaimStatus struct {
	// Active is true while the claim owns a drive and is not being deleted.
	// +optional
	Active bool `json:"active,omitempty"`
	// MatchedDevice is the name of the NVMeDevice that the claim owns.
	// +optional
	MatchedDevice string `json:"matchedDevice,omitempty"`
	// NodeName is the node that the drive is in.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// Conditions are Bound.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NVMeDeviceClaim gives one drive to DISTORT. An administrator makes it; it is
// the only permission by which a drive's content may change.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,categories=distort
// +kubebuilder:selectablefield:JSONPath=`.spec.serialNumber`
// +kubebuilder:printcolumn:name="Serial",type=string,JSONPath=`.spec.serialNumber`
// +kubebuilder:printcolumn:name="Bound",type=string,JSONPath=`.status.conditions[?(@.type=="Bound")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Bound")].reason`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.nodeName`
// +kubebuilder:printcolumn:name="Device",type=string,JSONPath=`.status.matchedDevice`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NVMeDeviceClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NVMeDeviceClaimSpec `json:"spec"`
	// +optional
	Status NVMeDeviceClaimStatus `json:"status,omitempty"`
}

// NVMeDeviceClaimList is a list of NVMeDeviceClaim.
// +kubebuilder:object:root=true
type NVMeDeviceClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NVMeDeviceClaim `json:"items"`
}
