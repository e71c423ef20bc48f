package inventory

import (
	"context"
	"slices"

	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Taken is what a volume takes in bytes, of a size in bytes, of the drive or pool
// that it is on. Errors: capacity.ErrInvalid, capacity.ErrOutOfRange.
func Taken(volume v1alpha1.Slice, size int64) (int64, error) {
	if v, zvol := volume.(*v1alpha1.Volume); zvol {
		return capacity.Zvol(size, int64(v.Spec.VolBlockSize))
	}
	return size, nil
}

// poolFree is what placement can still give of a pool in bytes: its sample without
// what distort-manager has reserved of it.
func (i *Inventory) poolFree(ctx context.Context, node string, guid v1alpha1.PoolGUID) (bytes int64, known bool, err error) {
	owner, err := i.owner(ctx, node)
	if err != nil || owner == nil {
		return 0, false, err
	}
	at := slices.IndexFunc(owner.Status.Pools, func(p v1alpha1.PoolStatus) bool { return p.GUID == guid })
	if at < 0 {
		return 0, false, nil
	}
	return unreserved(owner, &owner.Status.Pools[at]), true, nil
}

// unreserved is the space of a pool that no volume has or is about to get.
func unreserved(owner *v1alpha1.StorageNode, pool *v1alpha1.PoolStatus) int64 {
	free := pool.FreeBytes
	for _, r := range owner.Status.Reservations {
		if r.PoolGUID == pool.GUID {
			free = max(0, free-r.Size)
		}
	}
	return free
}

// countPools adds the pools of a node whose volumes have blocks of so many bytes.
func countPools(owner *v1alpha1.StorageNode, blockSize int32, declared map[v1alpha1.PoolGUID]int, room *Room) {
	if len(owner.Status.Reservations) >= v1alpha1.MaxReservations {
		return
	}
	for n := range owner.Status.Pools {
		pool := &owner.Status.Pools[n]
		if !pool.Ready || declared[pool.GUID] != 1 || !slices.Contains(owner.Spec.AuthoritativePoolGUIDs, pool.GUID) {
			continue
		}
		free := largestZvol(unreserved(owner, pool), blockSize)
		room.Total += free
		room.Largest = max(room.Largest, free)
	}
}

// largestZvol is the size in bytes of the largest volume that takes no more than
// this space in bytes.
func largestZvol(space int64, blockSize int32) int64 {
	taken, err := capacity.Zvol(space, int64(blockSize))
	if err != nil {
		return 0
	}
	// A smaller volume has no more metadata than one of the whole space.
	return max(0, space-(taken-space)) / capacity.Unit * capacity.Unit
}
