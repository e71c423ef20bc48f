package placement

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// driveRefusal is why nothing can be placed on a device, whatever is asked. A
// claim of nil is one that is not known.
func driveRefusal(device *v1alpha1.NVMeDevice, claim *v1alpha1.NVMeDeviceClaim, closed, duplicate bool) Reason {
	switch {
	case device.Status.ClaimRef == nil:
		return DriveUnclaimed
	case closed || !claimHolds(device, claim):
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

// nodeRefusal is why nothing can be placed on a node. Either object may be nil.
func nodeRefusal(node *v1alpha1.RDMAStorageNode, owner *v1alpha1.StorageNode) Reason {
	switch {
	case node == nil || node.DeletionTimestamp != nil:
		return NodeUnknown
	case !meta.IsStatusConditionTrue(node.Status.Conditions, v1alpha1.ConditionReady):
		return NodeNotReady
	case !meta.IsStatusConditionTrue(node.Status.Conditions, v1alpha1.ConditionNVMeInventoryReady):
		return InventoryIncomplete
	case owner != nil && owner.Spec.Enabled != nil && !*owner.Spec.Enabled:
		return NodeDisabled
	case owner != nil && v1alpha1.Cordoned(owner):
		return NodeCordoned
	}
	return ""
}

// nearTo lists the transports that have a portal on the NUMA node of the device,
// each once.
func nearTo(device *v1alpha1.NVMeDevice, node *v1alpha1.RDMAStorageNode) []v1alpha1.Transport {
	if device.Spec.NUMANode == nil || node == nil {
		return nil
	}
	var near []v1alpha1.Transport
	for i := range node.Spec.Portals {
		portal := &node.Spec.Portals[i]
		if portal.NUMANode != nil && *portal.NUMANode == *device.Spec.NUMANode && !slices.Contains(near, portal.Transport) {
			near = append(near, portal.Transport)
		}
	}
	return near
}

// transportsOf lists the transports of a node's portals, each once.
func transportsOf(node *v1alpha1.RDMAStorageNode) []v1alpha1.Transport {
	var transports []v1alpha1.Transport
	for i := range node.Spec.Portals {
		if t := node.Spec.Portals[i].Transport; !slices.Contains(transports, t) {
			transports = append(transports, t)
		}
	}
	return transports
}
