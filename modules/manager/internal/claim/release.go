package claim

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// maxNamed bounds how many partitions a message lists.
const maxNamed = 10

// release lets the drives of deleted claims go, once no partition is left that
// was placed by that claim. A drive that meanwhile belongs to another claim, or
// to another life of one with the same name, is not touched.
func (r *Reconciler) release(ctx context.Context, s *scene) error {
	for _, claim := range s.claims {
		if claim.DeletionTimestamp == nil || !controllerutil.ContainsFinalizer(claim, v1alpha1.ClaimFinalizer) {
			continue
		}
		if left := r.close(claim); len(left) > 0 {
			v := verdict{reason: v1alpha1.ReasonPartitionsRemain, message: remaining(left)}
			for _, device := range s.devices {
				if owns(claim, device) {
					v.device = device
				}
			}
			if err := r.tell(ctx, claim, v); err != nil {
				return err
			}
			continue
		}
		free := true
		for _, device := range s.devices {
			if owns(claim, device) {
				left, err := r.free(ctx, device)
				if err != nil {
					return err
				}
				free = free && left
			}
		}
		if !free {
			continue
		}
		base := claim.DeepCopy()
		controllerutil.RemoveFinalizer(claim, v1alpha1.ClaimFinalizer)
		if err := r.patch(ctx, claim, base); err != nil {
			return fmt.Errorf("drop finalizer of claim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
		log.FromContext(ctx).Info("released claim", "claim", client.ObjectKeyFromObject(claim))
	}
	return nil
}

// close keeps new partitions away from a claim's drive and lists those that are
// there by this claim, placed or about to be.
func (r *Reconciler) close(claim *v1alpha1.NVMeDeviceClaim) []client.ObjectKey {
	r.Ledger.CloseClaim(claim)
	var left []client.ObjectKey
	for _, holder := range r.Ledger.Holders(claim.Spec.SerialNumber) {
		if holder.Claim == claim.UID {
			left = append(left, holder.Partition)
		}
	}
	return left
}

// free clears the owner of a device. It tells false when the device still
// reserves space, for a partition that is gone or that this process has not seen
// yet: the next write of its reservations brings another call. The optimistic lock
// refuses a release when a reservation is made meanwhile.
func (r *Reconciler) free(ctx context.Context, device *v1alpha1.NVMeDevice) (bool, error) {
	if len(device.Status.Reservations) > 0 {
		return false, nil
	}
	return true, r.assign(ctx, device, nil)
}

// remaining says which partitions a deleted claim waits for.
func remaining(keys []client.ObjectKey) string {
	return fmt.Sprintf("being deleted; waits for %d partitions: %s", len(keys), listed(keys))
}

// listed names partitions, the first of many.
func listed(keys []client.ObjectKey) string {
	names := make([]string, 0, maxNamed+1)
	for i, key := range keys {
		if i == maxNamed {
			names = append(names, fmt.Sprintf("and %d more", len(keys)-maxNamed))
			break
		}
		names = append(names, key.String())
	}
	return strings.Join(names, ", ")
}

// reap clears the owner of a device when that claim is gone, which happens when
// somebody removed its finalizer by hand. The cache may lag, so the API server
// is asked; and partitions that are left keep the drive as it is.
func (r *Reconciler) reap(ctx context.Context, s *scene) error {
	owners := s.owners()
	for _, device := range s.devices {
		ref := device.Status.ClaimRef
		if ref == nil || owners[ref.UID] != "" {
			continue
		}
		claim := &v1alpha1.NVMeDeviceClaim{}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, claim)
		switch {
		case err == nil && claim.UID == ref.UID:
			continue
		case err != nil && !apierrors.IsNotFound(err):
			return fmt.Errorf("read claim %s/%s that owns device %s: %w", ref.Namespace, ref.Name, device.Name, err)
		}
		gone := &v1alpha1.NVMeDeviceClaim{}
		gone.UID, gone.Spec.SerialNumber = ref.UID, device.Spec.SerialNumber
		if len(r.close(gone)) > 0 {
			continue
		}
		if _, err := r.free(ctx, device); err != nil {
			return err
		}
	}
	return nil
}
