// Package pool is what a storage node knows of its ZFS pools: which ones are its
// own, and what of them it tells the cluster (StorageNode).
//
// A node touches a pool only while the pools that are imported are exactly those
// that its StorageNode declares. A pool that was imported on another node, another
// pool of the same name, or one that is missing, stops every change.
package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/agent/internal/zfs"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// ErrNotOwned: the pool is not one of this node's.
var ErrNotOwned = errors.New("pool is not this node's")

// Owner tells which pools this node may change.
type Owner struct {
	// Client reads from a cache that has the StorageNode of this node.
	Client   client.Reader
	NodeName string
	ZFS      *zfs.Manager
}

// Pool returns the pool with this GUID, if it is one of the node's and ZFS calls
// it usable. Errors: ErrNotOwned, zfs.ErrMismatch, zfs.ErrNoPool,
// zfs.ErrSuspended, zfs.ErrReadOnly, zfs.ErrUnhealthy.
func (o *Owner) Pool(ctx context.Context, guid v1alpha1.PoolGUID) (zfs.Pool, error) {
	n := &v1alpha1.StorageNode{}
	switch err := o.Client.Get(ctx, client.ObjectKey{Name: o.NodeName}, n); {
	case apierrors.IsNotFound(err):
		return zfs.Pool{}, fmt.Errorf("%w: there is no StorageNode %s that declares pool %s", ErrNotOwned, o.NodeName, guid)
	case err != nil:
		return zfs.Pool{}, fmt.Errorf("read StorageNode %s: %w", o.NodeName, err)
	case !slices.Contains(n.Spec.AuthoritativePoolGUIDs, guid):
		return zfs.Pool{}, fmt.Errorf("%w: StorageNode %s does not declare pool %s", ErrNotOwned, o.NodeName, guid)
	}
	pools, err := o.ZFS.Pools(ctx)
	if err != nil {
		return zfs.Pool{}, err
	}
	at := slices.IndexFunc(pools, func(p zfs.Pool) bool { return p.GUID == string(guid) })
	err = zfs.Authorize(declared(n), pools)
	switch {
	case err != nil && at < 0:
		return zfs.Pool{}, fmt.Errorf("%w: %w", zfs.ErrNoPool, err)
	case err != nil:
		return zfs.Pool{}, err
	}
	return pools[at], pools[at].Usable()
}

// Working is Pool, and the pool has answered a read of its disks.
func (o *Owner) Working(ctx context.Context, guid v1alpha1.PoolGUID) (zfs.Pool, error) {
	p, err := o.Pool(ctx, guid)
	if err != nil {
		return zfs.Pool{}, err
	}
	return p, o.ZFS.Check(ctx, p)
}

func declared(n *v1alpha1.StorageNode) []string {
	var out []string
	for _, guid := range n.Spec.AuthoritativePoolGUIDs {
		out = append(out, string(guid))
	}
	return out
}
