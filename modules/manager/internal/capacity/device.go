package capacity

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/write"
)

// device writes the reservations and the free capacity of a drive. A write that
// lost brings the state that it lost against by the watch, and with it another
// plan.
func (r *Reconciler) device(ctx context.Context, name string) error {
	for _, partition := range r.Ledger.Unsettled(name) {
		gone, err := r.gone(ctx, v1alpha1.VolumeReference{
			Kind: v1alpha1.KindNVMePartition, Namespace: partition.Namespace, Name: partition.Name, UID: partition.UID,
		})
		if err != nil {
			return err
		}
		if gone {
			r.Ledger.Gone(partition.UID)
		}
	}
	plan, known := r.Ledger.Plan(name)
	if !known || !plan.Due() {
		return nil
	}
	device := plan.Device.DeepCopy()
	device.Status.Reservations, device.Status.FreeCapacity = plan.Reservations, plan.Free
	if err := write.Status(ctx, r.Client, device, plan.Device); err != nil {
		if write.IgnoreLost(err) == nil {
			return nil
		}
		return fmt.Errorf("write the reservations of drive %s: %w", name, err)
	}
	r.Ledger.Wrote(device)
	return nil
}

// gone tells whether an object does not exist any more. One that the cache does not
// show may be too young for it, so the API server is asked.
func (r *Reconciler) gone(ctx context.Context, ref v1alpha1.VolumeReference) (bool, error) {
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	for _, reader := range []client.Reader{r.Client, r.Live} {
		s := v1alpha1.NewSlice(ref.Kind)
		switch err := reader.Get(ctx, key, s); {
		case err == nil && s.GetUID() == ref.UID:
			return false, nil
		case err != nil && !apierrors.IsNotFound(err):
			return false, fmt.Errorf("read %s %s that space is reserved for: %w", ref.Kind, key, err)
		}
	}
	return true, nil
}
