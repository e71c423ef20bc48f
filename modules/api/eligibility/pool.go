package eligibility

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// PoolNode is why nothing can be placed on the pools of a node. The node is nil when
// it is not known.
func PoolNode(node *v1alpha1.RDMAStorageNode, owner *v1alpha1.StorageNode) Reason {
	ready := meta.FindStatusCondition(owner.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case node == nil || node.DeletionTimestamp != nil:
		return NodeUnknown
	case !meta.IsStatusConditionTrue(node.Status.Conditions, v1alpha1.ConditionReady):
		return NodeNotReady
	case owner.Spec.Enabled != nil && !*owner.Spec.Enabled:
		return NodeDisabled
	case owner.DeletionTimestamp != nil || v1alpha1.Cordoned(owner):
		return NodeCordoned
	case ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != owner.Generation:
		return NodeNotReady
	}
	return ""
}
