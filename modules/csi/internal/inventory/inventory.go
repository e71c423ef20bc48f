package inventory

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/index"
)

const (
	indexNode   = "spec.nodeName"
	indexSerial = "spec.serialNumber"
	// indexDrive finds the partitions of a drive.
	indexDrive = "drive"
)

// driveKey is a drive as a value of indexDrive; no node name has a slash.
func driveKey(node, serial string) string { return node + "/" + serial }

// Inventory reads NVMeDevice, NVMeDeviceClaim, NVMePartition, RDMAStorageNode
// and StorageNode.
type Inventory struct {
	cached        client.Reader
	defaultDomain v1alpha1.DomainName
}

// New starts the informers that the reads need; reads from cached must come
// from them. The default domain is that of a node without a StorageNode.
func New(ctx context.Context, informers cache.Cache, cached client.Reader, defaultDomain v1alpha1.DomainName) (*Inventory, error) {
	for _, o := range []client.Object{
		&v1alpha1.NVMeDevice{}, &v1alpha1.NVMeDeviceClaim{}, &v1alpha1.NVMePartition{}, &v1alpha1.RDMAStorageNode{}, &v1alpha1.StorageNode{},
	} {
		if _, err := informers.GetInformer(ctx, o); err != nil {
			return nil, fmt.Errorf("informer for %T: %w", o, err)
		}
	}
	if err := errors.Join(
		index.Add(ctx, informers, &v1alpha1.NVMeDevice{}, indexNode, func(d *v1alpha1.NVMeDevice) string { return d.Spec.NodeName }),
		index.Add(ctx, informers, &v1alpha1.NVMeDevice{}, indexSerial, func(d *v1alpha1.NVMeDevice) string { return d.Spec.SerialNumber }),
		index.Add(ctx, informers, &v1alpha1.NVMePartition{}, indexDrive, func(p *v1alpha1.NVMePartition) string {
			return driveKey(p.Spec.NodeName, p.Spec.ParentDeviceSerialNumber)
		}),
	); err != nil {
		return nil, err
	}
	return &Inventory{cached: cached, defaultDomain: defaultDomain}, nil
}

// ByObject says which of the kinds are not only those of the driver's
// namespace: administrators claim drives from anywhere.
func ByObject() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&v1alpha1.NVMeDeviceClaim{}: {Namespaces: map[string]cache.Config{cache.AllNamespaces: {}}},
	}
}

// Domain is the network domain from which a storage node is reached.
func (i *Inventory) Domain(ctx context.Context, node string) (v1alpha1.DomainName, error) {
	owner, err := i.owner(ctx, node)
	if err != nil || owner == nil {
		return i.defaultDomain, err
	}
	return owner.Spec.NetworkDomain, nil
}

// Free is what placement can still give of the drive or pool that a volume is on,
// in bytes, and how people call that; known is false when nobody has said it yet.
func (i *Inventory) Free(ctx context.Context, volume v1alpha1.Slice) (where string, bytes int64, known bool, err error) {
	switch v := volume.(type) {
	case *v1alpha1.NVMePartition:
		bytes, known, err = i.driveFree(ctx, v.Spec.NodeName, v.Spec.ParentDeviceSerialNumber)
		return "drive " + v.Spec.ParentDeviceSerialNumber, bytes, known, err
	case *v1alpha1.Volume:
		bytes, known, err = i.poolFree(ctx, v.Spec.OwnerNode, v.Spec.PoolGUID)
		return "pool " + string(v.Spec.PoolGUID), bytes, known, err
	}
	return "", 0, false, fmt.Errorf("%T is of no known kind", volume)
}

func (i *Inventory) driveFree(ctx context.Context, node, serial string) (bytes int64, known bool, err error) {
	d := &v1alpha1.NVMeDevice{}
	found, err := i.get(ctx, types.NamespacedName{Name: identity.DeviceName(node, serial)}, d)
	if err != nil || !found || d.Status.FreeCapacity == nil {
		return 0, false, err
	}
	return *d.Status.FreeCapacity, true, nil
}

// Node returns the observed storage node, nil when there is none.
func (i *Inventory) Node(ctx context.Context, name string) (*v1alpha1.RDMAStorageNode, error) {
	n := &v1alpha1.RDMAStorageNode{}
	found, err := i.get(ctx, types.NamespacedName{Name: name}, n)
	if !found {
		return nil, err
	}
	return n, nil
}

// owner returns the StorageNode of a node, nil when there is none.
func (i *Inventory) owner(ctx context.Context, node string) (*v1alpha1.StorageNode, error) {
	n := &v1alpha1.StorageNode{}
	found, err := i.get(ctx, types.NamespacedName{Name: node}, n)
	if !found {
		return nil, err
	}
	return n, nil
}

// get reads an object that nobody changes, so nothing need be copied.
func (i *Inventory) get(ctx context.Context, key types.NamespacedName, into client.Object) (found bool, err error) {
	err = i.cached.Get(ctx, key, into, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %T %s: %w", into, key, err)
	}
	return true, nil
}
