package inventory

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/eligibility"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

// Room is where volumes can still be placed, in bytes.
type Room struct {
	// Total of all drives or pools.
	Total int64
	// Largest volume that one of them can hold.
	Largest int64
}

// Room counts the drives or pools that a volume could be placed on. It changes
// nothing of what it reads, and copies nothing.
func (i *Inventory) Room(ctx context.Context, want request.Capacity) (Room, error) {
	var nodes v1alpha1.RDMAStorageNodeList
	if err := i.cached.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return Room{}, fmt.Errorf("list RDMAStorageNodes: %w", err)
	}
	declared, err := i.declared(ctx)
	if err != nil {
		return Room{}, err
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
		if want.Domain != "" && domain != want.Domain || eligibility.Transport(eligibility.Transports(node), want.Transport) != "" {
			continue
		}
		if want.Kind == v1alpha1.KindVolume {
			if owner != nil && eligibility.PoolNode(node, owner) == "" {
				countPools(owner, want.BlockSize, declared, &room)
			}
			continue
		}
		if eligibility.Node(node, owner) != "" || eligibility.Backend(eligibility.Backends(node), want.Backend) != "" {
			continue
		}
		if err := i.count(ctx, node.Name, want.Backend, &room); err != nil {
			return Room{}, err
		}
	}
	return room, nil
}

// declared counts the StorageNodes that declare each pool: one that several call
// their own serves nobody.
func (i *Inventory) declared(ctx context.Context) (map[v1alpha1.PoolGUID]int, error) {
	var owners v1alpha1.StorageNodeList
	if err := i.cached.List(ctx, &owners, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list StorageNodes: %w", err)
	}
	times := map[v1alpha1.PoolGUID]int{}
	for n := range owners.Items {
		for _, guid := range owners.Items[n].Spec.AuthoritativePoolGUIDs {
			times[guid]++
		}
	}
	return times, nil
}

// count adds the drives of a node.
func (i *Inventory) count(ctx context.Context, node string, backend v1alpha1.TargetBackend, room *Room) error {
	var drives v1alpha1.NVMeDeviceList
	if err := i.cached.List(ctx, &drives, client.MatchingFields{indexNode: node}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list NVMeDevices of node %s: %w", node, err)
	}
	for d := range drives.Items {
		drive := &drives.Items[d]
		if drive.Status.ClaimRef == nil || drive.Status.FreeCapacity == nil {
			continue
		}
		refusal, err := i.refusal(ctx, drive)
		if err != nil {
			return err
		}
		if refusal != "" {
			continue
		}
		load, err := i.load(ctx, drive)
		if err != nil {
			return err
		}
		left := eligibility.RoomOf(drive, load)
		// distort-manager may know of more that is there.
		left.Free = min(left.Free, *drive.Status.FreeCapacity)
		total, largest := left.For(backend)
		room.Total += total
		room.Largest = max(room.Largest, largest)
	}
	return nil
}

// refusal is why nothing is placed on a drive that has a claim.
func (i *Inventory) refusal(ctx context.Context, drive *v1alpha1.NVMeDevice) (eligibility.Reason, error) {
	ref := drive.Status.ClaimRef
	claim := &v1alpha1.NVMeDeviceClaim{}
	found, err := i.get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, claim)
	if err != nil {
		return "", err
	}
	if !found {
		claim = nil
	}
	unique, err := i.unique(ctx, drive.Spec.SerialNumber)
	return eligibility.Drive(drive, claim, !unique), err
}

// load sums up the partitions that are placed on a drive and those that it is
// reserved for.
func (i *Inventory) load(ctx context.Context, drive *v1alpha1.NVMeDevice) (eligibility.Load, error) {
	var partitions v1alpha1.NVMePartitionList
	key := driveKey(drive.Spec.NodeName, drive.Spec.SerialNumber)
	if err := i.cached.List(ctx, &partitions, client.MatchingFields{indexDrive: key}, client.UnsafeDisableDeepCopy); err != nil {
		return eligibility.Load{}, fmt.Errorf("list NVMePartitions of drive %s: %w", key, err)
	}
	load := eligibility.LoadOf(drive)
	placed := map[types.UID]bool{}
	for p := range partitions.Items {
		load.Add(eligibility.ShareOf(&partitions.Items[p]))
		placed[partitions.Items[p].UID] = true
	}
	for r := range drive.Status.Reservations {
		if reservation := &drive.Status.Reservations[r]; !placed[reservation.UID] {
			load.Add(eligibility.ReservedShare(reservation))
		}
	}
	return load, nil
}

// unique tells whether only one drive with this serial number is there.
func (i *Inventory) unique(ctx context.Context, serial string) (bool, error) {
	var drives v1alpha1.NVMeDeviceList
	if err := i.cached.List(ctx, &drives, client.MatchingFields{indexSerial: serial}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list NVMeDevices with serial number %q: %w", serial, err)
	}
	there := 0
	for d := range drives.Items {
		if !eligibility.Absent(&drives.Items[d]) {
			there++
		}
	}
	return there <= 1, nil
}
