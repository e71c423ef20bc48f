// Package capacity publishes what placement can still give: freeCapacity of
// NVMeDevices and RDMAStorageNodes. Placement itself never reads them.
package capacity

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Coalesce is how long a change waits for others of the same drive, so that a
// burst of volumes costs one write.
const Coalesce = 500 * time.Millisecond

// Request names the NVMeDevice or the RDMAStorageNode whose space changed.
type Request struct{ Device, Node string }

// Space tells what is left. placement.Ledger implements it.
type Space interface {
	// Space in bytes of a device; false when it is not claimed.
	Space(device string) (int64, bool)
	// NodeSpace in bytes of a node's claimed devices.
	NodeSpace(node string) int64
}

// Reconciler writes freeCapacity when it differs.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	Space  Space
	// Changes names what may differ.
	Changes source.TypedSource[Request]
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return builder.TypedControllerManagedBy[Request](mgr).Named("capacity").
		WatchesRawSource(r.Changes).
		Complete(r)
}

// Reconcile brings one freeCapacity up to date.
func (r *Reconciler) Reconcile(ctx context.Context, request Request) (reconcile.Result, error) {
	if request.Device != "" {
		return reconcile.Result{}, r.device(ctx, request.Device)
	}
	return reconcile.Result{}, r.node(ctx, request.Node)
}

func (r *Reconciler) device(ctx context.Context, name string) error {
	device := &v1alpha1.NVMeDevice{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, device); err != nil {
		return client.IgnoreNotFound(err)
	}
	var want *int64
	if free, claimed := r.Space.Space(name); claimed {
		want = &free
	}
	if ptr.Equal(device.Status.FreeCapacity, want) {
		return nil
	}
	base := device.DeepCopy()
	device.Status.FreeCapacity = want
	if err := r.Client.Status().Patch(ctx, device, client.MergeFrom(base)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write free capacity of drive %s: %w", name, err)
	}
	return nil
}

func (r *Reconciler) node(ctx context.Context, name string) error {
	node := &v1alpha1.RDMAStorageNode{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	want := ptr.To(r.Space.NodeSpace(name))
	if ptr.Equal(node.Status.FreeCapacity, want) {
		return nil
	}
	base := node.DeepCopy()
	node.Status.FreeCapacity = want
	if err := r.Client.Status().Patch(ctx, node, client.MergeFrom(base)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write free capacity of storage node %s: %w", name, err)
	}
	return nil
}
