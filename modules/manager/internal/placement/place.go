package placement

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Attempt is what to do with an unplaced partition.
type Attempt struct {
	// Settled: it is placed, and the watch will show it; nothing is to be done.
	Settled bool
	// Placement is to be written, under the resourceVersion of the partition that
	// Place was given.
	Placement *Placement
	// Refusal says why nothing can hold the partition, when neither of the above.
	Refusal string
}

// Place decides where an unplaced partition goes and reserves the space, in one
// step. The reservation stays until the watch shows the placement, the
// partition goes, or a later state of the partition proves that the placement
// was not written; until then the same placement is returned again, because a
// write whose answer was lost may have landed.
func (l *Ledger) Place(p *v1alpha1.NVMePartition) Attempt {
	var attempt Attempt
	l.apply(func() Change {
		var change Change
		if r := l.held[p.UID]; r != nil {
			switch {
			case r.assumed == nil || r.assumed.sent && r.assumed.version == p.ResourceVersion:
				attempt.Settled = true
				return change
			case r.assumed.version == p.ResourceVersion:
				attempt.Placement = &r.assumed.placement
				return change
			}
			l.release(p.UID)
			change.merge(l.rebuild(r.drive.Node))
		}
		request, refusal := l.request(p)
		if refusal == "" {
			now := l.clock()
			if placement := Decide(now, request, l.snapshot); placement != nil {
				attempt.Placement = placement
				l.reserve(p.UID, &reservation{
					key: client.ObjectKeyFromObject(p), drive: placement.DriveID, claim: placement.Claim.UID,
					backend: request.Backend, size: request.Size,
					assumed: &assumption{placement: *placement, version: p.ResourceVersion},
				})
				delete(l.waiting, p.UID)
				change.merge(l.rebuild(placement.Node))
				return change
			}
			refusal = Message(request, Explain(now, request, l.snapshot))
		}
		attempt.Refusal = refusal
		l.waiting[p.UID] = client.ObjectKeyFromObject(p)
		return change
	})
	return attempt
}

// request is what a partition asks for, or why it cannot be had.
func (l *Ledger) request(p *v1alpha1.NVMePartition) (Request, string) {
	request := Request{Size: rounded(p.Spec.Size), Backend: p.Spec.TargetBackend, Transport: p.Spec.Transport}
	if p.Spec.Topology != nil {
		request.Topology = *p.Spec.Topology
	}
	switch source := p.Spec.Source; {
	case source == nil:
	case source.Snapshot != nil:
		return request, fmt.Sprintf("snapshot %s cannot be restored to a drive: this version places no restored volumes", source.Snapshot.Name)
	case source.Volume.Kind != v1alpha1.KindNVMePartition:
		return request, fmt.Sprintf("a drive cannot hold a copy of %s %s", source.Volume.Kind, source.Volume.Name)
	default:
		held := l.held[source.Volume.UID]
		if held == nil {
			return request, fmt.Sprintf("source NVMePartition %s/%s is not placed", source.Volume.Namespace, source.Volume.Name)
		}
		request.Source = &held.drive
	}
	return request, ""
}

// Sent records that the API server took the placement of a partition.
func (l *Ledger) Sent(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.held[uid]; r != nil && r.assumed != nil {
		r.assumed.sent = true
	}
}

// Withdraw drops the placement of a partition that is proved not to be written
// and never will be.
func (l *Ledger) Withdraw(uid types.UID) {
	l.apply(func() Change {
		if r := l.held[uid]; r == nil || r.assumed == nil {
			return Change{}
		}
		return l.rebuild(l.release(uid).drive.Node)
	})
}

// Waiting lists the partitions that found no drive, in order of their names.
func (l *Ledger) Waiting() []client.ObjectKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := make([]client.ObjectKey, 0, len(l.waiting))
	for _, key := range l.waiting {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}

// CloseClaim keeps new volumes away from a claim's drive from now on and lists
// the partitions that are there by this claim, written or about to be.
func (l *Ledger) CloseClaim(claim *v1alpha1.NVMeDeviceClaim) []client.ObjectKey {
	var keys []client.ObjectKey
	l.apply(func() Change {
		l.closed[claim.UID] = true
		for _, r := range l.held {
			if r.claim == claim.UID {
				keys = append(keys, r.key)
			}
		}
		return l.rebuildSerial(claim.Spec.SerialNumber)
	})
	slices.SortFunc(keys, compareKeys)
	return keys
}

// Space is the space in bytes left on a device; false when it is not claimed,
// and so gives nothing.
func (l *Ledger) Space(device string) (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.devices[device]
	if d == nil || d.Status.ClaimRef == nil {
		return 0, false
	}
	return l.freeOf(d), true
}

// NodeSpace is the space in bytes left on the claimed drives of a node.
func (l *Ledger) NodeSpace(node string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum int64
	for name := range l.byNode[node] {
		if l.devices[name].Status.ClaimRef != nil {
			sum += l.freeOf(l.devices[name])
		}
	}
	return sum
}

// Inventory lists the devices and nodes that the Ledger knows.
func (l *Ledger) Inventory() (devices, nodes []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.devices {
		devices = append(devices, name)
	}
	for name := range l.nodes {
		nodes = append(nodes, name)
	}
	return devices, nodes
}

func compareKeys(a, b client.ObjectKey) int {
	switch {
	case a.String() < b.String():
		return -1
	case a.String() > b.String():
		return 1
	}
	return 0
}
