package eligibility

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Drive is why nothing can be placed on a drive, whatever is asked. A claim of nil
// is one that is not known; duplicate means that another drive with this serial
// number is there (see Absent).
func Drive(device *v1alpha1.NVMeDevice, claim *v1alpha1.NVMeDeviceClaim, duplicate bool) Reason {
	switch {
	case device.Status.ClaimRef == nil:
		return DriveUnclaimed
	case !claimHolds(device, claim):
		return ClaimInactive
	case duplicate:
		return DuplicateSerial
	case !meta.IsStatusConditionTrue(device.Status.Conditions, v1alpha1.ConditionHardwareAvailable):
		return DriveUnavailable
	case !meta.IsStatusConditionTrue(device.Status.Conditions, v1alpha1.ConditionMediaUsable):
		return DriveUnusable
	case device.DeletionTimestamp != nil || v1alpha1.Cordoned(device):
		return DriveCordoned
	}
	return ""
}

// claimHolds tells whether the claim is live, active and exactly the one that
// owns the device: UID, serial number and node match from both sides.
func claimHolds(device *v1alpha1.NVMeDevice, claim *v1alpha1.NVMeDeviceClaim) bool {
	ref := device.Status.ClaimRef
	return claim != nil && claim.DeletionTimestamp == nil &&
		ref.UID == claim.UID && ref.Namespace == claim.Namespace && ref.Name == claim.Name &&
		claim.Spec.SerialNumber == device.Spec.SerialNumber &&
		claim.Status.Active && claim.Status.MatchedDevice == device.Name && claim.Status.NodeName == device.Spec.NodeName
}

// Absent tells whether a complete scan of its node did not see the drive. An
// absent drive is no duplicate of one with the same serial number elsewhere: it
// was moved.
func Absent(device *v1alpha1.NVMeDevice) bool {
	c := meta.FindStatusCondition(device.Status.Conditions, v1alpha1.ConditionHardwareAvailable)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonNotFound
}
