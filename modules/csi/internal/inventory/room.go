package inventory

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

// Room is where volumes can still be placed, in bytes.
type Room struct {
	// Total of all drives.
	Total int64
	// Largest volume that one drive can hold.
	Largest int64
}

// Room counts the drives that a volume could be placed on. It changes nothing
// of what it reads, and copies nothing.
func (i *Inventory) Room(ctx context.Context, want request.Capacity) (Room, error) {
	var nodes v1alpha1.RDMAStorageNodeList
	if err := i.cached.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return Room{}, fmt.Errorf("list RDMAStorageNodes: %w", err)
	}
	var room Room
	for n := range nodes.Items {
		node := &nodes.Items[n]
		owner, err := i.owner(ctx, node.Name)
		if err != nil {
			return Room{}, err
		}
		domain := i.defaultDomain
		if owner != nil {
			domain = owner.Spec.NetworkDomain
		}
		if (want.Domain != "" && domain != want.Domain) || !nodeServes(node, owner, want.Transport) {
			continue
		}
		if err := i.count(ctx, node.Name, want.Backend, &room); err != nil {
			return Room{}, err
		}
	}
	return room, nil
}

// count adds the drives of a node.
func (i *Inventory) count(ctx context.Context, node string, backend v1alpha1.TargetBackend, room *Room) error {
	var drives v1alpha1.NVMeDeviceList
	if err := i.cached.List(ctx, &drives, client.MatchingFields{indexNode: node}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list NVMeDevices of node %s: %w", node, err)
	}
	for d := range drives.Items {
		drive := &drives.Items[d]
		if !driveServes(drive, backend) || drive.Status.FreeCapacity == nil {
			continue
		}
		ours, err := i.placeable(ctx, drive)
		if err != nil {
			return err
		}
		uncarved, shared, err := i.placed(ctx, drive, backend)
		if err != nil {
			return err
		}
		if !ours || shared {
			continue
		}
		free := whole(*drive.Status.FreeCapacity)
		room.Total += free
		if extent := drive.Status.LargestFreeExtent; extent > 0 {
			free = min(free, whole(max(0, extent-uncarved)))
		}
		room.Largest = max(room.Largest, free)
	}
	return nil
}

// whole is the part of a space in bytes that volumes can fill.
func whole(bytes int64) int64 { return bytes / capacity.Unit * capacity.Unit }

// placed tells what is still to be cut out of a drive, in bytes, for partitions
// that have their place there, and whether some belong to another backend.
func (i *Inventory) placed(ctx context.Context, drive *v1alpha1.NVMeDevice, backend v1alpha1.TargetBackend) (uncarved int64, shared bool, err error) {
	var partitions v1alpha1.NVMePartitionList
	key := driveKey(drive.Spec.NodeName, drive.Spec.SerialNumber)
	if err := i.cached.List(ctx, &partitions, client.MatchingFields{indexDrive: key}, client.UnsafeDisableDeepCopy); err != nil {
		return 0, false, fmt.Errorf("list NVMePartitions of drive %s: %w", key, err)
	}
	for p := range partitions.Items {
		partition := &partitions.Items[p]
		uncarved += max(0, partition.Spec.Size-partition.Status.AllocatedCapacity)
		shared = shared || partition.Spec.TargetBackend != backend
	}
	return uncarved, shared, nil
}

// placeable tells whether the claim that owns the drive holds, and whether the
// drive is the only one with its serial number.
func (i *Inventory) placeable(ctx context.Context, drive *v1alpha1.NVMeDevice) (bool, error) {
	claimed, err := i.claimed(ctx, drive)
	if err != nil || !claimed {
		return false, err
	}
	return i.unique(ctx, drive.Spec.SerialNumber)
}

// claimed tells whether the claim that owns the drive is alive and bound to
// exactly this drive.
func (i *Inventory) claimed(ctx context.Context, drive *v1alpha1.NVMeDevice) (bool, error) {
	ref := drive.Status.ClaimRef
	claim := &v1alpha1.NVMeDeviceClaim{}
	found, err := i.get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, claim)
	return found && claimHolds(claim, drive), err
}

// unique tells whether only one drive with this serial number is there.
func (i *Inventory) unique(ctx context.Context, serial string) (bool, error) {
	var drives v1alpha1.NVMeDeviceList
	if err := i.cached.List(ctx, &drives, client.MatchingFields{indexSerial: serial}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list NVMeDevices with serial number %q: %w", serial, err)
	}
	there := 0
	for d := range drives.Items {
		if !absent(&drives.Items[d]) {
			there++
		}
	}
	return there == 1, nil
}
