package placement

import (
	"cmp"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// PlaceVolume is Place for a Volume. Its placement names a pool. The snapshot is the
// one that the volume is made of, nil when there is none.
func (l *Ledger) PlaceVolume(v *v1alpha1.Volume, snapshot *v1alpha1.Snapshot) Attempt {
	var attempt Attempt
	l.apply(func() Change {
		if l.pools.placed[v.UID] != nil || l.pools.decided[v.UID] != nil || l.sent[v.UID] == v.ResourceVersion && v.ResourceVersion != "" {
			return Change{}
		}
		if reserved := l.pools.reserved.names(string(v.UID)); len(reserved) > 0 {
			attempt.Placement, attempt.Refusal = reservedPool(v, l.owners[reserved[0]])
			return Change{}
		}
		request, refusal := l.volumeRequest(v, snapshot)
		if refusal == "" {
			now := l.clock()
			if placement := Decide(now, request, l.snapshot); placement != nil {
				delete(l.pools.waiting, v.UID)
				l.pools.decided[v.UID] = &share{name: v.Name, uid: v.UID, pool: PoolID{placement.Node, placement.Pool}, size: request.Size}
				change := l.rebuild(placement.Node)
				change.ReserveOwners = append(change.ReserveOwners, placement.Node)
				return change
			}
			refusal = Message(request, Explain(now, request, l.snapshot))
		}
		attempt.Refusal = refusal
		l.pools.waiting[v.UID] = client.ObjectKeyFromObject(v)
		return Change{}
	})
	return attempt
}

// reservedPool is the placement of a Volume on the pool that is reserved for it; see
// reserved.
func reservedPool(v *v1alpha1.Volume, owner *v1alpha1.StorageNode) (*Placement, string) {
	at := slices.IndexFunc(owner.Status.Reservations, func(r v1alpha1.PoolReservation) bool { return r.UID == v.UID })
	r := owner.Status.Reservations[at]
	if size := shareOf(v).size; r.Size < size {
		return nil, fmt.Sprintf("pool %s of node %s is reserved for it with %d bytes, and it takes %d now", r.PoolGUID, owner.Name, r.Size, size)
	}
	return &Placement{DriveID: DriveID{Node: owner.Name}, Pool: r.PoolGUID, Domain: owner.Spec.NetworkDomain}, ""
}

// volumeRequest is what a Volume asks for, or why it cannot be had.
func (l *Ledger) volumeRequest(v *v1alpha1.Volume, snapshot *v1alpha1.Snapshot) (Request, string) {
	request := Request{Pool: true, Size: shareOf(v).size, Backend: v.GetTargetBackend(), Transport: v.GetTransport()}
	if v.Spec.Topology != nil {
		request.Topology = *v.Spec.Topology
	}
	switch {
	case v.Spec.Type != v1alpha1.VolumeBlock:
		return request, fmt.Sprintf("this version places no volumes of type %s", v.Spec.Type)
	case v.Spec.Provenance != v1alpha1.ProvenanceDynamic:
		return request, fmt.Sprintf("this version places no volumes of provenance %s", v.Spec.Provenance)
	}
	var refusal string
	request.SourcePool, refusal = l.sourcePool(v, snapshot)
	return request, refusal
}

// sourcePool is where the source of a Volume is, where it has to stay; nil for one
// that is made anew.
func (l *Ledger) sourcePool(v *v1alpha1.Volume, snapshot *v1alpha1.Snapshot) (*PoolID, string) {
	switch of, copied := v.Spec.SourceSnapshot, v.Spec.SourceVolume; {
	case of != nil && (snapshot == nil || snapshot.UID != of.UID):
		return nil, fmt.Sprintf("there is no Snapshot %s with UID %s", of.Name, of.UID)
	case of != nil && snapshot.Status.PoolGUID == "":
		return nil, fmt.Sprintf("Snapshot %s is not taken yet", of.Name)
	case of != nil:
		return &PoolID{snapshot.Spec.NodeName, snapshot.Status.PoolGUID}, ""
	case copied != nil && l.pools.placed[copied.UID] == nil:
		return nil, fmt.Sprintf("there is no %s %s with UID %s on a pool", copied.Kind, copied.Name, copied.UID)
	case copied != nil:
		pool := l.pools.placed[copied.UID].pool
		return &pool, ""
	}
	return nil, ""
}

// WaitingVolumes lists the Volumes that found no pool, in order of their names.
func (l *Ledger) WaitingVolumes() []client.ObjectKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := make([]client.ObjectKey, 0, len(l.pools.waiting))
	for _, key := range l.pools.waiting {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}

// PoolPlan is what the status of a StorageNode should say.
type PoolPlan struct {
	// Owner is the state of the StorageNode that the plan was made from. The plan
	// holds under its resourceVersion alone. It must not be changed.
	Owner *v1alpha1.StorageNode
	// Reservations of all Volumes that the samples do not contain.
	Reservations []v1alpha1.PoolReservation
}

// Due tells whether the StorageNode does not say so yet.
func (p PoolPlan) Due() bool { return !slices.Equal(p.Owner.Status.Reservations, p.Reservations) }

// PlanPools makes the plan for a StorageNode; false when there is no such object.
func (l *Ledger) PlanPools(owner string) (PoolPlan, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.owners[owner]
	if o == nil {
		return PoolPlan{}, false
	}
	plan := PoolPlan{Owner: o}
	l.eachShare(o, func(s *share, pending int64) {
		plan.Reservations = append(plan.Reservations, v1alpha1.PoolReservation{PoolGUID: s.pool.GUID, Name: s.name, UID: s.uid, Size: pending})
	})
	slices.SortFunc(plan.Reservations, func(a, b v1alpha1.PoolReservation) int { return cmp.Compare(a.UID, b.UID) })
	return plan, true
}

// UnsettledVolumes is Unsettled for the pools of a StorageNode.
func (l *Ledger) UnsettledVolumes(owner string) []v1alpha1.PoolReservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.owners[owner]
	if o == nil {
		return nil
	}
	var unsettled []v1alpha1.PoolReservation
	for _, r := range o.Status.Reservations {
		if _, gone := l.pools.gone[r.UID]; !gone && l.pools.placed[r.UID] == nil {
			unsettled = append(unsettled, r)
		}
	}
	return unsettled
}

// WroteOwner takes note of a StorageNode as the API server answered to an own write.
// The caller must not change it any more.
func (l *Ledger) WroteOwner(owner *v1alpha1.StorageNode) {
	l.apply(func() Change {
		if known := l.owners[owner.Name]; known == nil || known.UID != owner.UID {
			return Change{}
		}
		return l.learnOwner(owner)
	})
}
