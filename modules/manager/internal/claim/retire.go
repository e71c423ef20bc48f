package claim

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/api/eligibility"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/write"
)

// retireAfter is how long the object of a drive stays that is not there any more
// and that nobody has.
const retireAfter = 10 * time.Minute

// retire removes the objects of drives that were taken out for good: a complete
// scan did not see the drive, no claim owns it and no partition is on it. The
// agent makes the object anew should the drive come back, and nothing is lost. A
// drive that is claimed keeps its object for ever.
func (r *Reconciler) retire(ctx context.Context, s *scene) error {
	for _, device := range s.devices {
		if device.Status.ClaimRef != nil || !eligibility.Absent(device) || !vacant(device, r.Ledger.Holders(device.Spec.SerialNumber)) {
			continue
		}
		seen := meta.FindStatusCondition(device.Status.Conditions, v1alpha1.ConditionHardwareAvailable).LastTransitionTime
		if left := seen.Add(retireAfter).Sub(r.Clock()); left > 0 {
			if s.again == 0 || left < s.again {
				s.again = left
			}
			continue
		}
		if err := write.Delete(ctx, r.Client, device); err != nil {
			return fmt.Errorf("remove device %s, which is not there any more: %w", device.Name, err)
		}
		log.FromContext(ctx).Info("removed the object of a drive that is gone", "device", device.Name, "node", device.Spec.NodeName)
	}
	return nil
}
