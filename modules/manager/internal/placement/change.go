package placement

import (
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Change is what an event altered in the Ledger.
type Change struct {
	// Room is true when a volume that found no drive may find one now.
	Room bool
	// Reasons is true when a volume that found no drive may be refused for another
	// reason now.
	Reasons bool
	// Devices are the NVMeDevices whose space is to be looked at again.
	Devices []string
	// Nodes are the RDMAStorageNodes whose space is to be looked at again.
	Nodes []string
	// Released are the serial numbers of drives that lost a partition.
	Released []string
	// Reserve are the NVMeDevices with decisions that wait to be reserved.
	Reserve []string
	// Decide are the partitions to look at now: their reservation is made, or has
	// to be decided anew.
	Decide []client.ObjectKey
	// Owners are the StorageNodes whose reservations are to be looked at again, and
	// ReserveOwners those with decisions that wait to be reserved.
	Owners, ReserveOwners []string
	// DecideVolumes is Decide for Volumes.
	DecideVolumes []client.ObjectKey
}

func (c *Change) merge(other Change) {
	c.Room, c.Reasons = c.Room || other.Room, c.Reasons || other.Reasons
	c.Devices = append(c.Devices, other.Devices...)
	c.Nodes = append(c.Nodes, other.Nodes...)
	c.Released = append(c.Released, other.Released...)
	c.Reserve = append(c.Reserve, other.Reserve...)
	c.Decide = append(c.Decide, other.Decide...)
	c.Owners = append(c.Owners, other.Owners...)
	c.ReserveOwners = append(c.ReserveOwners, other.ReserveOwners...)
	c.DecideVolumes = append(c.DecideVolumes, other.DecideVolumes...)
}

func (c *Change) empty() bool {
	return !c.Room && !c.Reasons && len(c.Devices) == 0 && len(c.Nodes) == 0 && len(c.Released) == 0 &&
		len(c.Reserve) == 0 && len(c.Decide) == 0 &&
		len(c.Owners) == 0 && len(c.ReserveOwners) == 0 && len(c.DecideVolumes) == 0
}

// difference tells what matters between two states of a node.
func difference(before, after *Node) Change {
	var change Change
	known := map[string]*Drive{}
	for i := range before.Drives {
		known[before.Drives[i].Device] = &before.Drives[i]
	}
	nodeChanged := before.Refusal != after.Refusal || before.Domain != after.Domain ||
		!slices.Equal(before.Transports, after.Transports) || !slices.Equal(before.Backends, after.Backends) || before.Name != after.Name
	for i := range after.Drives {
		drive := &after.Drives[i]
		change.merge(driveDifference(after, nodeChanged, known[drive.Device], drive))
		delete(known, drive.Device)
	}
	change.merge(poolDifference(before, after, nodeChanged))
	if len(known) > 0 {
		change.Nodes = append(change.Nodes, after.Name)
	}
	change.Reasons = change.Reasons || nodeChanged || len(known) > 0
	change.Devices = append(change.Devices, slices.Sorted(maps.Keys(known))...)
	return change
}

// driveDifference tells what matters between two states of a drive of the node; old
// is nil when there was none.
func driveDifference(node *Node, nodeChanged bool, old, drive *Drive) Change {
	var change Change
	if old == nil || old.Free != drive.Free || old.Claim != drive.Claim {
		change.Devices, change.Nodes = []string{drive.Device}, []string{node.Name}
	}
	change.Reasons = old == nil || old.Refusal != drive.Refusal || old.Free != drive.Free || old.Contiguous != drive.Contiguous || !slices.Equal(old.Holders, drive.Holders)
	change.Room = node.Refusal == "" && drive.Refusal == "" && (nodeChanged || old == nil || drive.roomierThan(old))
	return change
}

// poolDifference tells what matters of a node's pools.
func poolDifference(before, after *Node, nodeChanged bool) Change {
	nodeChanged = nodeChanged || before.PoolRefusal != after.PoolRefusal
	change := Change{Reasons: before.PoolRefusal != after.PoolRefusal || !slices.Equal(before.Pools, after.Pools)}
	known := map[v1alpha1.PoolGUID]Pool{}
	for _, pool := range before.Pools {
		known[pool.GUID] = pool
	}
	for _, pool := range after.Pools {
		old, had := known[pool.GUID]
		roomier := !had || nodeChanged || old.Refusal != "" || pool.Free > old.Free || old.Full && !pool.Full
		change.Room = change.Room || after.PoolRefusal == "" && pool.Refusal == "" && roomier
	}
	return change
}

// roomierThan tells whether the drive may hold something that it refused before.
func (d *Drive) roomierThan(old *Drive) bool {
	left := func(b v1alpha1.TargetBackend) bool { return !slices.Contains(d.Holders, b) }
	return old.Refusal != "" || d.Free > old.Free || d.Contiguous > old.Contiguous || old.Full && !d.Full || slices.ContainsFunc(old.Holders, left)
}

// Subscribe calls f, which must not block, after each change until the returned
// function is called.
func (l *Ledger) Subscribe(f func(Change)) (cancel func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := l.nextID
	l.nextID++
	l.subscribers[id] = f
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.subscribers, id)
	}
}

// apply makes a change under the lock and tells the subscribers without it.
func (l *Ledger) apply(alter func() Change) {
	l.mu.Lock()
	change := alter()
	var told []func(Change)
	if !change.empty() {
		told = slices.Collect(maps.Values(l.subscribers))
	}
	l.mu.Unlock()
	for _, f := range told {
		f(change)
	}
}
