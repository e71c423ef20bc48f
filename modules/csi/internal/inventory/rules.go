package inventory

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// nodeServes tells whether volumes of this transport are placed on the node.
// The owner is nil when no StorageNode describes the node.
func nodeServes(node *v1alpha1.RDMAStorageNode, owner *v1alpha1.StorageNode, transport v1alpha1.Transport) bool {
	if owner != nil && (v1alpha1.Cordoned(owner) || (owner.Spec.Enabled != nil && !*owner.Spec.Enabled)) {
		return false
	}
	return node.DeletionTimestamp == nil &&
		meta.IsStatusConditionTrue(node.Status.Conditions, v1alpha1.ConditionReady) &&
		meta.IsStatusConditionTrue(node.Status.Conditions, v1alpha1.ConditionNVMeInventoryReady) &&
		slices.ContainsFunc(node.Spec.Portals, func(p v1alpha1.NodePortal) bool { return p.Transport == transport })
}

// driveServes tells whether volumes of this backend are placed on the drive, if
// its claim holds.
func driveServes(drive *v1alpha1.NVMeDevice, backend v1alpha1.TargetBackend) bool {
	holder := drive.Status.ActiveBackend
	return drive.Status.ClaimRef != nil &&
		drive.DeletionTimestamp == nil && !v1alpha1.Cordoned(drive) &&
		meta.IsStatusConditionTrue(drive.Status.Conditions, v1alpha1.ConditionHardwareAvailable) &&
		meta.IsStatusConditionTrue(drive.Status.Conditions, v1alpha1.ConditionMediaUsable) &&
		(holder == "" || holder == v1alpha1.ActiveBackendNone || string(holder) == string(backend))
}

// claimHolds tells whether claim and drive name each other.
func claimHolds(claim *v1alpha1.NVMeDeviceClaim, drive *v1alpha1.NVMeDevice) bool {
	return claim.DeletionTimestamp == nil && claim.UID == drive.Status.ClaimRef.UID &&
		claim.Spec.SerialNumber == drive.Spec.SerialNumber &&
		claim.Status.Active && claim.Status.MatchedDevice == drive.Name && claim.Status.NodeName == drive.Spec.NodeName
}

// absent tells whether a complete scan of its node did not see the drive: it
// was moved, and is no duplicate of where it is now.
func absent(drive *v1alpha1.NVMeDevice) bool {
	c := meta.FindStatusCondition(drive.Status.Conditions, v1alpha1.ConditionHardwareAvailable)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonNotFound
}
