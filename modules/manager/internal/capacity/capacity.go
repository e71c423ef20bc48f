// Package capacity writes what the Ledger of package placement knows to the
// objects: the reservations and the free capacity of NVMeDevices, the reservations
// of StorageNodes, and the free capacity of RDMAStorageNodes. The write to a device
// or to a StorageNode is the reservation by which volumes are placed; see the
// comment of package placement.
package capacity

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/placement"
)

// Coalesce is how long a change that nobody waits for waits for others of the
// same drive, so that a burst of them costs one write.
const Coalesce = 500 * time.Millisecond

// workers is how many objects are written at once.
const workers = 4

// Request names the NVMeDevice, the RDMAStorageNode or, for its pools, the
// StorageNode whose space changed.
type Request struct{ Device, Node, Owner string }

// Ledger tells what to write. placement.Ledger implements it.
type Ledger interface {
	// Plan for the status of a device; false when there is no such device.
	Plan(device string) (placement.Plan, bool)
	// Wrote takes note of a device as it is after an own write.
	Wrote(device *v1alpha1.NVMeDevice)
	// Unsettled lists the partitions that a device reserves for and that are not
	// known to be placed.
	Unsettled(device string) []v1alpha1.ObjectReference
	// Gone records that a partition does not exist any more.
	Gone(partition types.UID)
	// NodeSpace in bytes of a node's claimed devices.
	NodeSpace(node string) int64

	// The same for the pools of a StorageNode, and for Volumes.
	PlanPools(owner string) (placement.PoolPlan, bool)
	WroteOwner(owner *v1alpha1.StorageNode)
	UnsettledVolumes(owner string) []v1alpha1.PoolReservation
	GoneVolume(volume types.UID)
}

// Reconciler writes what differs.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Live reads from the API server, where absence must be certain.
	Live   client.Reader
	Ledger Ledger
	// Changes names what may differ, and Decided the devices that decisions wait
	// for.
	Changes, Decided source.TypedSource[Request]
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return builder.TypedControllerManagedBy[Request](mgr).Named("capacity").
		WatchesRawSource(r.Changes).
		WatchesRawSource(r.Decided).
		WithOptions(controller.TypedOptions[Request]{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// Reconcile brings one object up to date.
func (r *Reconciler) Reconcile(ctx context.Context, request Request) (reconcile.Result, error) {
	switch {
	case request.Device != "":
		return reconcile.Result{}, r.device(ctx, request.Device)
	case request.Owner != "":
		return reconcile.Result{}, r.owner(ctx, request.Owner)
	}
	return reconcile.Result{}, r.node(ctx, request.Node)
}
