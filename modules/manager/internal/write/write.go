// Package write has the only ways in which this program changes an object: with
// the differences from a state that was read, and only if the object is still in
// that state. So no write undoes what its author did not see, and of two managers
// that act at once one is refused.
package write

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Patch writes what differs from base outside of the status. The object becomes
// what the API server answers.
func Patch(ctx context.Context, c client.Client, object, base client.Object) error {
	return c.Patch(ctx, object, from(base))
}

// Status is Patch for the status.
func Status(ctx context.Context, c client.Client, object, base client.Object) error {
	return c.Status().Patch(ctx, object, from(base))
}

// Delete removes the object in the state that was read.
func Delete(ctx context.Context, c client.Client, object client.Object) error {
	uid, version := object.GetUID(), object.GetResourceVersion()
	return c.Delete(ctx, object, client.Preconditions{UID: &uid, ResourceVersion: &version})
}

func from(base client.Object) client.Patch {
	return client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
}

// IgnoreLost is nil for a write that came too late: the object has changed or is
// gone. The watch brings what there is now, and with it another call.
func IgnoreLost(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
