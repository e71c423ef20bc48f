package placement

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/eligibility"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Attempt is what to do with an unplaced partition. All is empty when nothing is
// to be done now: it is placed, or its reservation is on the way, and an event
// will tell.
type Attempt struct {
	// Placement is reserved and to be written.
	Placement *Placement
	// Refusal says why nothing can hold the partition.
	Refusal string
}

// Place tells what to do with an unplaced partition. One that no drive reserves
// for gets a decision, which counts from then on in this process and is told as
// Change.Reserve; once its reservation is made, the partition is told as
// Change.Decide, and Place returns the placement.
func (l *Ledger) Place(p *v1alpha1.NVMePartition) Attempt {
	var attempt Attempt
	l.apply(func() Change {
		if l.placed[p.UID] != nil || l.decided[p.UID] != nil || l.sent[p.UID] == p.ResourceVersion && p.ResourceVersion != "" {
			return Change{}
		}
		if reserved := l.reservedOn.names(string(p.UID)); len(reserved) > 0 {
			attempt.Placement, attempt.Refusal = l.reserved(p, l.devices[reserved[0]])
			return Change{}
		}
		request, refusal := l.request(p)
		if refusal == "" {
			now := l.clock()
			if placement := Decide(now, request, l.snapshot); placement != nil {
				delete(l.waiting, p.UID)
				l.decide(&decision{device: placement.Device, assignment: assignment{
					partition: v1alpha1.ObjectReference{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, claim: placement.Claim.UID,
					Share: eligibility.Share{Backend: request.Backend, Size: request.Size, Uncarved: request.Size},
				}})
				change := l.rebuildDrive(l.devices[placement.Device])
				change.Reserve = append(change.Reserve, placement.Device)
				return change
			}
			refusal = Message(request, Explain(now, request, l.snapshot))
		}
		attempt.Refusal = refusal
		l.waiting[p.UID] = client.ObjectKeyFromObject(p)
		return Change{}
	})
	return attempt
}

// reserved is the placement of a partition on the device that reserves for it. A
// reservation of a partition that exists is never undone, because whoever made
// it may be about to place the partition; it is carried out, by whoever comes
// first.
func (l *Ledger) reserved(p *v1alpha1.NVMePartition, device *v1alpha1.NVMeDevice) (*Placement, string) {
	at := slices.IndexFunc(device.Status.Reservations, func(r v1alpha1.Reservation) bool { return r.UID == p.UID })
	switch size := device.Status.Reservations[at].Size; {
	case device.Status.ClaimRef == nil:
		return nil, fmt.Sprintf("drive %s is reserved for it, and is not claimed any more", device.Name)
	case size < eligibility.Rounded(p.Spec.Size):
		return nil, fmt.Sprintf("drive %s is reserved for it with %d bytes, and it asks for %d now", device.Name, size, p.Spec.Size)
	}
	return &Placement{DriveID: driveOf(device), Device: device.Name, Claim: *device.Status.ClaimRef}, ""
}

// request is what a partition asks for, or why it cannot be had.
func (l *Ledger) request(p *v1alpha1.NVMePartition) (Request, string) {
	request := Request{Size: eligibility.Rounded(p.Spec.Size), Backend: p.Spec.TargetBackend, Transport: p.Spec.Transport}
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
		at := l.placed[source.Volume.UID]
		if at == nil {
			return request, fmt.Sprintf("source NVMePartition %s/%s is not placed", source.Volume.Namespace, source.Volume.Name)
		}
		request.Source = &at.drive
	}
	return request, ""
}

// Sent records that the API server took the placement of a partition that had
// this resourceVersion before. Until the watch shows it there is nothing to do.
func (l *Ledger) Sent(p types.UID, version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.placed[p] == nil && l.pools.placed[p] == nil {
		l.sent[p] = version
	}
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

// Holder is a partition that has space on a drive, or is about to get it.
type Holder struct {
	Partition client.ObjectKey
	// Node in which the drive was when the partition was placed.
	Node string
	// Claim by which the partition is there.
	Claim types.UID
}

// Holders lists the partitions on the drives with this serial number, in order
// of their names.
func (l *Ledger) Holders(serial string) []Holder {
	l.mu.Lock()
	defer l.mu.Unlock()
	var holders []Holder
	known := map[string]bool{}
	for _, name := range l.bySerial.names(serial) {
		device := l.devices[name]
		known[device.Spec.NodeName] = true
		l.each(device, func(a *assignment) { holders = append(holders, Holder{a.key(), device.Spec.NodeName, a.claim}) })
	}
	for _, node := range l.placedIn.names(serial) {
		if known[node] {
			continue
		}
		for _, at := range l.byDrive[DriveID{node, serial}] {
			holders = append(holders, Holder{at.key(), node, at.claim})
		}
	}
	slices.SortFunc(holders, func(a, b Holder) int { return compareKeys(a.Partition, b.Partition) })
	return holders
}

// CloseClaim keeps new volumes away from a claim's drive from now on.
func (l *Ledger) CloseClaim(claim *v1alpha1.NVMeDeviceClaim) {
	l.apply(func() Change {
		l.closed[claim.UID] = true
		return l.rebuildSerial(claim.Spec.SerialNumber)
	})
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

// Everything is the change from knowing nothing to what the Ledger knows.
func (l *Ledger) Everything() Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Change{
		Devices: slices.Collect(maps.Keys(l.devices)), Nodes: slices.Collect(maps.Keys(l.nodes)), Owners: slices.Collect(maps.Keys(l.owners)),
	}
}

func keyOf(ref v1alpha1.ObjectReference) client.ObjectKey {
	return client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
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
