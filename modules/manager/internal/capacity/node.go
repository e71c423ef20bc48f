package capacity

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/write"
)

// node writes the free capacity of a storage node.
func (r *Reconciler) node(ctx context.Context, name string) error {
	node := &v1alpha1.RDMAStorageNode{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	want := ptr.To(r.Ledger.NodeSpace(name))
	if ptr.Equal(node.Status.FreeCapacity, want) {
		return nil
	}
	base := node.DeepCopy()
	node.Status.FreeCapacity = want
	if err := write.Status(ctx, r.Client, node, base); write.IgnoreLost(err) != nil {
		return fmt.Errorf("write free capacity of storage node %s: %w", name, err)
	}
	return nil
}
