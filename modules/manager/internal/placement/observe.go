package placement

import (
	"context"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Watch feeds the Ledger from a cache, from now until the cache stops.
func (l *Ledger) Watch(ctx context.Context, source cache.Cache) error {
	for _, w := range []struct {
		object  client.Object
		handler toolscache.ResourceEventHandler
	}{
		{&v1alpha1.NVMeDevice{}, handlerOf(l.deviceSeen, l.deviceGone)},
		{&v1alpha1.NVMeDeviceClaim{}, handlerOf(l.claimSeen, l.claimGone)},
		{&v1alpha1.RDMAStorageNode{}, handlerOf(l.nodeSeen, l.nodeGone)},
		{&v1alpha1.StorageNode{}, handlerOf(l.ownerSeen, l.ownerGone)},
		{&coordinationv1.Lease{}, handlerOf(l.leaseSeen, func(*coordinationv1.Lease) {})},
		{&v1alpha1.NVMePartition{}, handlerOf(l.partitionSeen, l.partitionGone)},
		{&v1alpha1.Volume{}, handlerOf(l.volumeSeen, l.volumeGone)},
	} {
		informer, err := source.GetInformer(ctx, w.object)
		if err != nil {
			return fmt.Errorf("watch %T: %w", w.object, err)
		}
		registration, err := informer.AddEventHandler(w.handler)
		if err != nil {
			return fmt.Errorf("watch %T: %w", w.object, err)
		}
		l.mu.Lock()
		l.registrations = append(l.registrations, registration)
		l.mu.Unlock()
	}
	return nil
}

func handlerOf[T client.Object](seen, gone func(T)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { seen(o.(T)) },
		UpdateFunc: func(_, o any) { seen(o.(T)) },
		DeleteFunc: func(o any) {
			if tombstone, missed := o.(toolscache.DeletedFinalStateUnknown); missed {
				o = tombstone.Obj
			}
			gone(o.(T))
		},
	}
}

// hasSynced tells whether everything that the cache knew at its start is in the
// Ledger.
func (l *Ledger) hasSynced() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.registrations {
		if !r.HasSynced() {
			return false
		}
	}
	return len(l.registrations) > 0
}

// WaitReady waits until the Ledger knows every placement that was made before
// the call, by whichever process. It is called once this process leads.
func (l *Ledger) WaitReady(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), l.hasSynced) {
		return fmt.Errorf("wait for the inventory: %w", context.Cause(ctx))
	}
	l.catchUp.Lock()
	defer l.catchUp.Unlock()
	if l.caughtUp {
		return nil
	}
	l.mu.Lock()
	l.departed = map[types.UID]struct{}{}
	l.mu.Unlock()
	var partitions v1alpha1.NVMePartitionList
	if err := l.live.List(ctx, &partitions); err != nil {
		return fmt.Errorf("list partitions that a former leader may have placed: %w", err)
	}
	l.apply(func() Change {
		var change Change
		for i := range partitions.Items {
			// The watch may be ahead of the list.
			if _, departed := l.departed[partitions.Items[i].UID]; !departed {
				change.merge(l.locate(&partitions.Items[i]))
			}
		}
		l.departed = nil
		return change
	})
	l.caughtUp = true
	return nil
}

func (l *Ledger) deviceSeen(device *v1alpha1.NVMeDevice) {
	l.apply(func() Change { return l.learn(device) })
}

func (l *Ledger) deviceGone(device *v1alpha1.NVMeDevice) {
	l.apply(func() Change {
		known := l.devices[device.Name]
		if known == nil {
			return Change{}
		}
		change := l.compare(device.Name, known.Status.Reservations, nil)
		delete(l.devices, device.Name)
		l.byNode.remove(known.Spec.NodeName, device.Name)
		l.bySerial.remove(known.Spec.SerialNumber, device.Name)
		for uid, d := range l.decidedFor[device.Name] {
			change.merge(l.undecide(uid))
			change.Decide = append(change.Decide, d.key())
		}
		change.merge(l.rebuild(known.Spec.NodeName))
		change.merge(l.rebuildSerial(known.Spec.SerialNumber))
		return change
	})
}

func (l *Ledger) claimSeen(claim *v1alpha1.NVMeDeviceClaim) {
	l.apply(func() Change {
		l.claims[claim.UID] = claim
		return l.rebuildSerial(claim.Spec.SerialNumber)
	})
}

func (l *Ledger) claimGone(claim *v1alpha1.NVMeDeviceClaim) {
	l.apply(func() Change {
		delete(l.claims, claim.UID)
		delete(l.closed, claim.UID)
		return l.rebuildSerial(claim.Spec.SerialNumber)
	})
}

func (l *Ledger) nodeSeen(node *v1alpha1.RDMAStorageNode) {
	l.apply(func() Change {
		l.nodes[node.Name] = node
		change := l.rebuild(node.Name)
		change.Nodes = append(change.Nodes, node.Name)
		return change
	})
}

func (l *Ledger) nodeGone(node *v1alpha1.RDMAStorageNode) {
	l.apply(func() Change {
		delete(l.nodes, node.Name)
		return l.rebuild(node.Name)
	})
}

func (l *Ledger) ownerSeen(owner *v1alpha1.StorageNode) {
	l.apply(func() Change { return l.learnOwner(owner) })
}

func (l *Ledger) ownerGone(owner *v1alpha1.StorageNode) {
	l.apply(func() Change { return l.forgetOwner(owner.Name) })
}

// leaseSeen takes note of a heartbeat. Only the end of a silence is a change.
func (l *Ledger) leaseSeen(lease *coordinationv1.Lease) {
	node, isAgent := strings.CutPrefix(lease.Name, v1alpha1.LeaseNamePrefix)
	if !isAgent {
		return
	}
	l.apply(func() Change {
		deadline := l.beats.Observe(node, lease)
		at, known := l.position(node)
		if !known {
			return Change{}
		}
		silent := !l.clock().Before(l.snapshot[at].AliveUntil)
		alive := *l.snapshot[at]
		alive.AliveUntil = deadline
		l.snapshot[at] = &alive
		return Change{Room: silent && (alive.Refusal == "" || len(alive.Pools) > 0 && alive.PoolRefusal == "")}
	})
}

// partitionSeen records a placement. As a placement never changes once it is
// made, an older state of the partition, or one that was read out of order,
// undoes nothing.
func (l *Ledger) partitionSeen(p *v1alpha1.NVMePartition) {
	l.apply(func() Change { return l.locate(p) })
}

func (l *Ledger) locate(p *v1alpha1.NVMePartition) Change {
	if p.Spec.NodeName == "" {
		return Change{}
	}
	at := locationOf(p)
	change := l.undecide(p.UID)
	change.Reasons = l.placed[p.UID] == nil // it may be what another one waits for as its source
	l.put(at)
	delete(l.waiting, p.UID)
	delete(l.sent, p.UID)
	// Where it is not reserved it has to be, and where it is not placed it must not.
	change.Devices = append(change.Devices, l.reservedOn.names(string(p.UID))...)
	for _, device := range l.on(at.drive) {
		change.merge(l.rebuildDrive(device))
		change.Devices = append(change.Devices, device.Name)
		change.merge(l.recheck(device))
	}
	return change
}

func (l *Ledger) partitionGone(p *v1alpha1.NVMePartition) {
	l.apply(func() Change {
		if l.departed != nil {
			l.departed[p.UID] = struct{}{}
		}
		return l.forget(p.UID)
	})
}

// forget drops everything about a partition that is gone.
func (l *Ledger) forget(uid types.UID) Change {
	delete(l.waiting, uid)
	delete(l.sent, uid)
	change := l.undecide(uid)
	reserved := l.reservedOn.names(string(uid))
	if len(reserved) > 0 {
		l.gone[uid] = struct{}{}
	}
	if at := l.remove(uid); at != nil {
		for _, device := range l.on(at.drive) {
			change.merge(l.rebuildDrive(device))
		}
		change.Released = append(change.Released, at.drive.Serial)
	}
	for _, name := range reserved {
		change.merge(l.rebuildDrive(l.devices[name]))
		change.Devices = append(change.Devices, name)
	}
	return change
}
