package placement

import (
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/api/eligibility"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// PoolID names a pool: whose it is counts as much as which one it is.
type PoolID struct {
	Owner string
	GUID  v1alpha1.PoolGUID
}

// share is the space of one Volume on one pool.
type share struct {
	name string
	uid  types.UID
	pool PoolID
	// size in bytes that the volume takes, and how much of it was seen on the pool.
	size, made int64
	// accounted is the generation of the first sample that contains what was seen; 0
	// when the volume has not recorded one.
	accounted int64
}

// pending is what of the share a sample of this generation does not contain
// (design.md §5). A growth that was made is told by its volume only after its
// sample was published, so what was seen is in each sample from then on.
func (s *share) pending(generation int64) int64 {
	if s.accounted == 0 || s.accounted > generation {
		return s.size
	}
	return max(0, s.size-s.made)
}

func (s *share) key() client.ObjectKey { return client.ObjectKey{Name: s.name} }

// pools is the Ledger's part about pools.
type pools struct {
	placed   map[types.UID]*share
	byPool   map[PoolID]map[types.UID]*share
	declared index                  // owners by the pool's GUID
	reserved index                  // owners by the UID of a Volume that they reserve for
	gone     map[types.UID]struct{} // Volumes that some owner still reserves for
	decided  map[types.UID]*share
	waiting  map[types.UID]client.ObjectKey
}

func newPools() pools {
	return pools{
		placed: map[types.UID]*share{}, byPool: map[PoolID]map[types.UID]*share{}, declared: index{}, reserved: index{},
		gone: map[types.UID]struct{}{}, decided: map[types.UID]*share{}, waiting: map[types.UID]client.ObjectKey{},
	}
}

// shareOf reads what a Volume takes of the pool that it is, or would be, placed on.
func shareOf(v *v1alpha1.Volume) *share {
	s := &share{
		name: v.Name, uid: v.UID, pool: PoolID{v.Spec.OwnerNode, v.Spec.PoolGUID},
		size: zvolSize(max(v.Spec.Capacity, v.Status.ActualCapacity), v.Spec.VolBlockSize), accounted: v.Status.AccountedGeneration,
	}
	if v.Status.ActualCapacity > 0 {
		s.made = zvolSize(v.Status.ActualCapacity, v.Spec.VolBlockSize)
	}
	if v.Status.State == v1alpha1.VolumeDestroyed {
		s.size = 0
	}
	return s
}

// zvolSize is what a zvol takes in bytes. One whose size cannot be computed takes
// everything, so that a mistake never looks like free space.
func zvolSize(bytes int64, blockSize int32) int64 {
	size, err := capacity.Zvol(bytes, int64(blockSize))
	if err != nil {
		return math.MaxInt64
	}
	return size
}

// eachShare visits everything of an owner's pools that the published samples do not
// contain, once: the Volumes that are placed there, those that the owner's status
// reserves for, and those that this process has decided for. A reservation of a
// Volume that is gone or is placed elsewhere takes nothing.
func (l *Ledger) eachShare(owner *v1alpha1.StorageNode, visit func(s *share, pending int64)) {
	tell := func(s *share, generation int64) {
		if pending := s.pending(generation); pending > 0 {
			visit(s, pending)
		}
	}
	for _, guid := range owner.Spec.AuthoritativePoolGUIDs {
		generation := sampleOf(owner, guid).SampleGeneration
		for _, s := range l.pools.byPool[PoolID{owner.Name, guid}] {
			tell(s, generation)
		}
	}
	for i := range owner.Status.Reservations {
		r := &owner.Status.Reservations[i]
		if _, gone := l.pools.gone[r.UID]; !gone && l.pools.placed[r.UID] == nil {
			visit(&share{name: r.Name, uid: r.UID, pool: PoolID{owner.Name, r.PoolGUID}, size: r.Size}, r.Size)
		}
	}
	for _, s := range l.pools.decided {
		if s.pool.Owner == owner.Name {
			visit(s, s.size)
		}
	}
}

// sampleOf is the published sample of a pool; the zero PoolStatus is ready for
// nothing.
func sampleOf(owner *v1alpha1.StorageNode, guid v1alpha1.PoolGUID) v1alpha1.PoolStatus {
	for _, p := range owner.Status.Pools {
		if p.GUID == guid {
			return p
		}
	}
	return v1alpha1.PoolStatus{GUID: guid}
}

// describePools makes the pools of a node of the snapshot. The object may be nil.
func (l *Ledger) describePools(node *Node, object *v1alpha1.RDMAStorageNode, owner *v1alpha1.StorageNode) {
	node.PoolRefusal = eligibility.PoolNode(object, owner)
	if owner.Status.LastObservedTime != nil {
		node.Observed = owner.Status.LastObservedTime.Time
	}
	taken, waiting := map[v1alpha1.PoolGUID]int64{}, 0
	l.eachShare(owner, func(s *share, pending int64) {
		taken[s.pool.GUID] = capacity.Sum(taken[s.pool.GUID], pending)
		waiting++
	})
	for _, guid := range owner.Spec.AuthoritativePoolGUIDs {
		sample := sampleOf(owner, guid)
		pool := Pool{GUID: guid, Free: max(0, sample.FreeBytes-taken[guid]), Full: waiting >= v1alpha1.MaxReservations}
		switch {
		case len(l.pools.declared[string(guid)]) > 1:
			pool.Refusal = eligibility.DuplicatePool
		case !sample.Ready:
			pool.Refusal = eligibility.PoolNotReady
		}
		node.Pools = append(node.Pools, pool)
	}
}

// learnOwner takes note of a state of a StorageNode, unless it is older than the
// known one.
func (l *Ledger) learnOwner(owner *v1alpha1.StorageNode) Change {
	var before []v1alpha1.PoolReservation
	var change Change
	if old := l.owners[owner.Name]; old != nil {
		if old.UID == owner.UID && !newer(owner.ResourceVersion, old.ResourceVersion) {
			return Change{}
		}
		before = old.Status.Reservations
		change.merge(l.declare(old, false))
	}
	l.owners[owner.Name] = owner
	change.merge(l.declare(owner, true))
	change.merge(l.comparePools(owner.Name, before, owner.Status.Reservations))
	change.merge(l.rebuild(owner.Name))
	change.merge(l.recheckPools(owner.Name))
	change.Owners = append(change.Owners, owner.Name)
	return change
}

func (l *Ledger) forgetOwner(name string) Change {
	known := l.owners[name]
	if known == nil {
		return Change{}
	}
	change := l.comparePools(name, known.Status.Reservations, nil)
	delete(l.owners, name)
	change.merge(l.declare(known, false))
	change.merge(l.recheckPools(name))
	change.merge(l.rebuild(name))
	return change
}

// declare takes note of which pools an owner declares, and rebuilds the others that
// declare them too.
func (l *Ledger) declare(owner *v1alpha1.StorageNode, does bool) Change {
	var change Change
	for _, guid := range owner.Spec.AuthoritativePoolGUIDs {
		if does {
			l.pools.declared.add(string(guid), owner.Name)
		} else {
			l.pools.declared.remove(string(guid), owner.Name)
		}
		for _, other := range l.pools.declared.names(string(guid)) {
			if other != owner.Name {
				change.merge(l.rebuild(other))
			}
		}
	}
	return change
}

// comparePools is compare for the reservations of an owner.
func (l *Ledger) comparePools(owner string, before, after []v1alpha1.PoolReservation) Change {
	var change Change
	lost := map[types.UID]string{}
	for i := range before {
		lost[before[i].UID] = before[i].Name
	}
	for i := range after {
		r := &after[i]
		if _, had := lost[r.UID]; had {
			delete(lost, r.UID)
			continue
		}
		l.pools.reserved.add(string(r.UID), owner)
		change.merge(l.undecideVolume(r.UID))
		change.DecideVolumes = append(change.DecideVolumes, client.ObjectKey{Name: r.Name})
	}
	for uid, name := range lost {
		l.pools.reserved.remove(string(uid), owner)
		if len(l.pools.reserved[string(uid)]) == 0 {
			delete(l.pools.gone, uid)
		}
		if l.pools.placed[uid] == nil {
			change.DecideVolumes = append(change.DecideVolumes, client.ObjectKey{Name: name})
		}
	}
	return change
}

// undecideVolume drops a decision and returns what else that changes.
func (l *Ledger) undecideVolume(uid types.UID) Change {
	s := l.pools.decided[uid]
	if s == nil {
		return Change{}
	}
	delete(l.pools.decided, uid)
	return l.rebuild(s.pool.Owner)
}

// recheckPools drops the decisions for an owner that what is known of it now does
// not allow; the others are to be reserved.
func (l *Ledger) recheckPools(owner string) Change {
	var decided []*share
	for _, s := range l.pools.decided {
		if s.pool.Owner == owner {
			decided = append(decided, s)
		}
	}
	if len(decided) == 0 {
		return Change{}
	}
	var change Change
	for _, s := range decided {
		if !l.stands(s) {
			change.merge(l.undecideVolume(s.uid))
			change.DecideVolumes = append(change.DecideVolumes, s.key())
		}
	}
	if len(change.DecideVolumes) < len(decided) {
		change.ReserveOwners = append(change.ReserveOwners, owner)
	}
	return change
}

// stands tells whether a decision is still possible, with all others that were made.
func (l *Ledger) stands(s *share) bool {
	owner := l.owners[s.pool.Owner]
	if owner == nil || !slices.Contains(owner.Spec.AuthoritativePoolGUIDs, s.pool.GUID) {
		return false
	}
	taken, waiting := int64(0), 0
	l.eachShare(owner, func(other *share, pending int64) {
		waiting++
		if other.pool == s.pool {
			taken = capacity.Sum(taken, pending)
		}
	})
	sample := sampleOf(owner, s.pool.GUID)
	return sample.Ready && taken <= sample.FreeBytes && waiting <= v1alpha1.MaxReservations
}

// volumeSeen records a placement; see partitionSeen. What a volume takes may change
// later.
func (l *Ledger) volumeSeen(v *v1alpha1.Volume) {
	l.apply(func() Change {
		if v.Spec.OwnerNode == "" {
			return Change{}
		}
		change := l.undecideVolume(v.UID)
		s := shareOf(v)
		delete(l.pools.waiting, v.UID)
		delete(l.sent, v.UID)
		if old := l.pools.placed[v.UID]; old != nil && *old == *s {
			return change
		}
		l.pools.placed[v.UID] = s
		if l.pools.byPool[s.pool] == nil {
			l.pools.byPool[s.pool] = map[types.UID]*share{}
		}
		l.pools.byPool[s.pool][v.UID] = s
		change.merge(l.rebuild(s.pool.Owner))
		change.merge(l.recheckPools(s.pool.Owner))
		// Where it is not reserved it may have to be, and where it is not placed it
		// must not.
		change.Owners = append(change.Owners, l.pools.reserved.names(string(v.UID))...)
		change.Owners = append(change.Owners, s.pool.Owner)
		return change
	})
}

func (l *Ledger) volumeGone(v *v1alpha1.Volume) {
	l.apply(func() Change { return l.forgetVolume(v.UID) })
}

// GoneVolume records that a Volume does not exist any more.
func (l *Ledger) GoneVolume(uid types.UID) {
	l.apply(func() Change { return l.forgetVolume(uid) })
}

// forgetVolume drops everything about a Volume that is gone.
func (l *Ledger) forgetVolume(uid types.UID) Change {
	delete(l.pools.waiting, uid)
	delete(l.sent, uid)
	change := l.undecideVolume(uid)
	reserved := l.pools.reserved.names(string(uid))
	if len(reserved) > 0 {
		l.pools.gone[uid] = struct{}{}
	}
	if s := l.pools.placed[uid]; s != nil {
		delete(l.pools.placed, uid)
		delete(l.pools.byPool[s.pool], uid)
		if len(l.pools.byPool[s.pool]) == 0 {
			delete(l.pools.byPool, s.pool)
		}
		change.merge(l.rebuild(s.pool.Owner))
	}
	for _, owner := range reserved {
		change.merge(l.rebuild(owner))
		change.Owners = append(change.Owners, owner)
	}
	return change
}
