package eligibility

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Node is why nothing can be placed on the drives of a node. The node is nil when it
// is not known, the owner when no StorageNode describes the node.
func Node(node *v1alpha1.RDMAStorageNode, owner *v1alpha1.StorageNode) Reason {
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

// Transports lists the transports of a node's portals, each once.
func Transports(node *v1alpha1.RDMAStorageNode) []v1alpha1.Transport {
	var transports []v1alpha1.Transport
	for i := range node.Spec.Portals {
		if t := node.Spec.Portals[i].Transport; !slices.Contains(transports, t) {
			transports = append(transports, t)
		}
	}
	return transports
}

// Backends lists the backends that serve volumes on the drives of a node.
func Backends(node *v1alpha1.RDMAStorageNode) []v1alpha1.TargetBackend {
	if len(node.Spec.TargetBackends) == 0 {
		return []v1alpha1.TargetBackend{v1alpha1.BackendKernel}
	}
	return node.Spec.TargetBackends
}

// Backend is why a node with these backends cannot serve volumes of the wanted one.
func Backend(has []v1alpha1.TargetBackend, want v1alpha1.TargetBackend) Reason {
	if !slices.Contains(has, want) {
		return NoBackend
	}
	return ""
}

// Transport is why a node with portals of these transports cannot serve volumes of
// the wanted one.
func Transport(has []v1alpha1.Transport, want v1alpha1.Transport) Reason {
	if !slices.Contains(has, want) {
		return noPortal(want)
	}
	return ""
}
