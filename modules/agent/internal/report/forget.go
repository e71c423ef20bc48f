package report

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// removed tells whether the object is of a drive that is gone for good as far as
// this node can tell: two complete scans did not see it, the earlier of which is
// in its condition, and nobody claims it.
func (r *Reporter) removed(s *sight, have *v1alpha1.NVMeDevice) bool {
	if have == nil || len(s.drives) > 0 || len(s.problems) > 0 || !s.complete || have.Status.ClaimRef != nil {
		return false
	}
	c := meta.FindStatusCondition(have.Status.Conditions, v1alpha1.ConditionHardwareAvailable)
	return c != nil && c.Reason == v1alpha1.ReasonNotFound
}

// forget deletes the object, unless somebody has changed it: a claim that was
// bound meanwhile keeps it.
func (r *Reporter) forget(ctx context.Context, have *v1alpha1.NVMeDevice) error {
	partitions, err := r.partitionsOf(ctx, have.Spec.SerialNumber)
	if err != nil || len(partitions) > 0 {
		return err
	}
	err = r.Client.Delete(ctx, have, client.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion})
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("delete NVMeDevice %s of drive %q, which was removed: %w", have.Name, have.Spec.SerialNumber, err)
	}
	log.FromContext(ctx).Info("drive was removed", "device", have.Name, "serial", have.Spec.SerialNumber)
	return nil
}
