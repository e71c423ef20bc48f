package capacity

import (
	"context"
	"fmt"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/write"
)

// owner writes the reservations on the pools of a StorageNode; see device.
func (r *Reconciler) owner(ctx context.Context, name string) error {
	for _, v := range r.Ledger.UnsettledVolumes(name) {
		gone, err := r.gone(ctx, v1alpha1.VolumeReference{Kind: v1alpha1.KindVolume, Name: v.Name, UID: v.UID})
		if err != nil {
			return err
		}
		if gone {
			r.Ledger.GoneVolume(v.UID)
		}
	}
	plan, known := r.Ledger.PlanPools(name)
	if !known || !plan.Due() {
		return nil
	}
	owner := plan.Owner.DeepCopy()
	owner.Status.Reservations = plan.Reservations
	if err := write.Status(ctx, r.Client, owner, plan.Owner); err != nil {
		if write.IgnoreLost(err) == nil {
			return nil
		}
		return fmt.Errorf("write the reservations of StorageNode %s: %w", name, err)
	}
	r.Ledger.WroteOwner(owner)
	return nil
}
