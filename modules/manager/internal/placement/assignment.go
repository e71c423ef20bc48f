package placement

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/eligibility"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// assignment is the space of one partition on one drive.
type assignment struct {
	partition v1alpha1.ObjectReference
	// claim by which the partition is on the drive.
	claim types.UID
	eligibility.Share
}

func (a *assignment) key() client.ObjectKey { return keyOf(a.partition) }

// location is a placement as a partition's spec has it.
type location struct {
	assignment
	drive DriveID
}

// decision is a placement that this process has decided and not reserved yet.
type decision struct {
	assignment
	device string
}

// locationOf reads the placement of a partition that has one.
func locationOf(p *v1alpha1.NVMePartition) *location {
	at := &location{
		drive: DriveID{p.Spec.NodeName, p.Spec.ParentDeviceSerialNumber},
		assignment: assignment{
			partition: v1alpha1.ObjectReference{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
			Share:     eligibility.ShareOf(p),
		},
	}
	if p.Spec.ClaimRef != nil {
		at.claim = p.Spec.ClaimRef.UID
	}
	return at
}

// put records where a partition is.
func (l *Ledger) put(at *location) {
	l.remove(at.partition.UID)
	l.placed[at.partition.UID] = at
	if l.byDrive[at.drive] == nil {
		l.byDrive[at.drive] = map[types.UID]*location{}
	}
	l.byDrive[at.drive][at.partition.UID] = at
	l.placedIn.add(at.drive.Serial, at.drive.Node)
}

// remove forgets where a partition is and returns it.
func (l *Ledger) remove(uid types.UID) *location {
	at := l.placed[uid]
	if at == nil {
		return nil
	}
	delete(l.placed, uid)
	delete(l.byDrive[at.drive], uid)
	if len(l.byDrive[at.drive]) == 0 {
		delete(l.byDrive, at.drive)
		l.placedIn.remove(at.drive.Serial, at.drive.Node)
	}
	return at
}

// decide records a decision.
func (l *Ledger) decide(d *decision) {
	l.decided[d.partition.UID] = d
	if l.decidedFor[d.device] == nil {
		l.decidedFor[d.device] = map[types.UID]*decision{}
	}
	l.decidedFor[d.device][d.partition.UID] = d
}

// undecide drops a decision and returns what else that changes.
func (l *Ledger) undecide(uid types.UID) Change {
	d := l.decided[uid]
	if d == nil {
		return Change{}
	}
	delete(l.decided, uid)
	delete(l.decidedFor[d.device], uid)
	if len(l.decidedFor[d.device]) == 0 {
		delete(l.decidedFor, d.device)
	}
	if device := l.devices[d.device]; device != nil {
		return l.rebuildDrive(device)
	}
	return Change{}
}

// each visits everything that takes space of a device, once: the partitions
// that are placed there, those that its status reserves for, and those that this
// process has decided for. A reservation of a partition that is gone or is
// placed elsewhere takes nothing.
func (l *Ledger) each(device *v1alpha1.NVMeDevice, visit func(*assignment)) {
	for _, at := range l.byDrive[driveOf(device)] {
		visit(&at.assignment)
	}
	for i := range device.Status.Reservations {
		r := &device.Status.Reservations[i]
		if _, gone := l.gone[r.UID]; gone || l.placed[r.UID] != nil {
			continue
		}
		a := &assignment{partition: r.ObjectReference, Share: eligibility.ReservedShare(r)}
		if device.Status.ClaimRef != nil {
			a.claim = device.Status.ClaimRef.UID
		}
		visit(a)
	}
	for _, d := range l.decidedFor[device.Name] {
		visit(&d.assignment)
	}
}

func driveOf(device *v1alpha1.NVMeDevice) DriveID {
	return DriveID{device.Spec.NodeName, device.Spec.SerialNumber}
}

// load sums up what takes space of a device.
func (l *Ledger) load(device *v1alpha1.NVMeDevice) eligibility.Load {
	load := eligibility.LoadOf(device)
	l.each(device, func(a *assignment) { load.Add(a.Share) })
	return load
}

// freeOf is the space in bytes left on a device.
func (l *Ledger) freeOf(device *v1alpha1.NVMeDevice) int64 {
	return eligibility.RoomOf(device, l.load(device)).Free
}
