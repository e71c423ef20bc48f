package controller

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// terminal lists the reasons, by condition, after which waiting is in vain.
var terminal = map[string]map[string]bool{
	v1alpha1.ConditionClaimAuthorized: {v1alpha1.ReasonClaimMismatch: true},
	v1alpha1.ConditionProvisioned: {
		v1alpha1.ReasonNoSpace:            true,
		v1alpha1.ReasonDriveRefused:       true,
		v1alpha1.ReasonDataLoss:           true,
		v1alpha1.ReasonBackendUnsupported: true,
		v1alpha1.ReasonDatasetRefused:     true,
		v1alpha1.ReasonUnsupported:        true,
		v1alpha1.ReasonSourceGone:         true,
	},
}

// provisioned tells whether the volume is ready; an error when it will not be:
// errNoCapacity or errFailed.
func provisioned(p v1alpha1.Slice) (bool, error) {
	conditions := p.GetConditions()
	if meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionExported) {
		return true, nil
	}
	placed := meta.FindStatusCondition(conditions, v1alpha1.ConditionPlaced)
	// A placed partition may still show the answer of an earlier attempt.
	if p.GetTargetNode() == "" && placed != nil && placed.Status == metav1.ConditionFalse && placed.Reason == v1alpha1.ReasonNoCandidate {
		return false, refusef(errNoCapacity, "%s", placed.Message)
	}
	for _, c := range conditions {
		if c.Status != metav1.ConditionFalse || !terminal[c.Type][c.Reason] {
			continue
		}
		kind := errFailed
		if c.Reason == v1alpha1.ReasonNoSpace {
			kind = errNoCapacity
		}
		return false, refusef(kind, "%s", describe(&c))
	}
	if p.IsFailed() {
		return false, refusef(errFailed, "failed: %s", progress(p))
	}
	return false, nil
}

// progress says, for one who ran out of time, what the volume waits for.
func progress(p v1alpha1.Slice) string {
	for _, kind := range []string{
		v1alpha1.ConditionPlaced, v1alpha1.ConditionClaimAuthorized, v1alpha1.ConditionProvisioned, v1alpha1.ConditionExported,
	} {
		if c := meta.FindStatusCondition(p.GetConditions(), kind); c != nil && c.Status != metav1.ConditionTrue {
			return describe(c)
		}
	}
	if p.GetTargetNode() == "" {
		return "not placed yet (distort-manager)"
	}
	return fmt.Sprintf("not exported yet (distort-agent on %s)", p.GetTargetNode())
}

// growthRefusal is distort-agent's final answer to the size that the spec now
// asks for, errNoCapacity; nil as long as there is none.
func growthRefusal(p v1alpha1.Slice) error {
	c := meta.FindStatusCondition(p.GetConditions(), v1alpha1.ConditionResized)
	if p.GetSize() <= p.GetActualSize() || c == nil || c.Status != metav1.ConditionFalse ||
		c.Reason != v1alpha1.ReasonGrowthNoSpace || c.ObservedGeneration != p.GetGeneration() {
		return nil
	}
	return refusef(errNoCapacity, "%s", c.Message)
}

// growth says what a volume waits for that is to have more space.
func growth(p v1alpha1.Slice) string {
	if c := meta.FindStatusCondition(p.GetConditions(), v1alpha1.ConditionResized); c != nil && c.ObservedGeneration == p.GetGeneration() {
		return describe(c)
	}
	return fmt.Sprintf("%d of %d bytes so far (distort-agent on %s)", p.GetActualSize(), p.GetSize(), p.GetTargetNode())
}

// granted tells whether the target admits the host of this attachment.
func granted(a *v1alpha1.NVMeVolumeAttachment) (bool, error) {
	c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionAccessReady)
	// What was observed of an earlier lifetime says nothing about this one.
	if c == nil || a.Status.ObservedAttachmentID != a.Spec.AttachmentID {
		return false, nil
	}
	if c.Reason == v1alpha1.ReasonVolumeMismatch {
		return false, refusef(errFailed, "%s", describe(c))
	}
	return c.Status == metav1.ConditionTrue, nil
}

// access says what an attachment waits for.
func access(a *v1alpha1.NVMeVolumeAttachment) string {
	if c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionAccessReady); c != nil {
		return describe(c)
	}
	return fmt.Sprintf("no answer yet (distort-agent on %s)", a.Spec.TargetNode)
}

func describe(c *metav1.Condition) string {
	return fmt.Sprintf("%s=%s, %s: %s", c.Type, c.Status, c.Reason, c.Message)
}
