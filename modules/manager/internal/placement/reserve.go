package placement

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Plan is what the status of a device should say.
type Plan struct {
	// Device is the state of the device that the plan was made from. The plan
	// holds under its resourceVersion alone. It must not be changed.
	Device *v1alpha1.NVMeDevice
	// Reservations of all partitions on the drive.
	Reservations []v1alpha1.Reservation
	// Free is the space in bytes that is left; nil for a drive that is not
	// claimed, and so gives nothing.
	Free *int64
}

// Due tells whether the device does not say so yet.
func (p Plan) Due() bool {
	return !ptr.Equal(p.Device.Status.FreeCapacity, p.Free) || !slices.Equal(p.Device.Status.Reservations, p.Reservations)
}

// Plan makes the plan for a device; false when there is no such device.
func (l *Ledger) Plan(device string) (Plan, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.devices[device]
	if d == nil {
		return Plan{}, false
	}
	plan := Plan{Device: d}
	if d.Status.ClaimRef != nil {
		plan.Free = ptr.To(l.freeOf(d))
	}
	l.each(d, func(a *assignment) {
		plan.Reservations = append(plan.Reservations, v1alpha1.Reservation{ObjectReference: a.partition, Size: a.Size, TargetBackend: a.Backend})
	})
	slices.SortFunc(plan.Reservations, func(a, b v1alpha1.Reservation) int { return cmp.Compare(a.UID, b.UID) })
	return plan, true
}

// Unsettled lists the reservations on a device whose partitions are not placed
// as far as the Ledger knows. Each is about to be placed, or gone.
func (l *Ledger) Unsettled(device string) []v1alpha1.ObjectReference {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.devices[device]
	if d == nil {
		return nil
	}
	var unsettled []v1alpha1.ObjectReference
	for i := range d.Status.Reservations {
		r := &d.Status.Reservations[i]
		if _, gone := l.gone[r.UID]; !gone && l.placed[r.UID] == nil {
			unsettled = append(unsettled, r.ObjectReference)
		}
	}
	return unsettled
}

// Gone records that a partition does not exist any more.
func (l *Ledger) Gone(uid types.UID) {
	l.apply(func() Change { return l.forget(uid) })
}

// Wrote takes note of a device as the API server answered to an own write. The
// caller must not change it any more.
func (l *Ledger) Wrote(device *v1alpha1.NVMeDevice) {
	l.apply(func() Change {
		if known := l.devices[device.Name]; known == nil || known.UID != device.UID {
			return Change{}
		}
		return l.learn(device)
	})
}

// learn takes note of a state of a device, unless it is older than the known one.
func (l *Ledger) learn(device *v1alpha1.NVMeDevice) Change {
	var before []v1alpha1.Reservation
	old := l.devices[device.Name]
	if old != nil {
		if old.UID == device.UID && !newer(device.ResourceVersion, old.ResourceVersion) {
			return Change{}
		}
		// A name may come back for another drive without an event in between.
		l.byNode.remove(old.Spec.NodeName, old.Name)
		l.bySerial.remove(old.Spec.SerialNumber, old.Name)
		before = old.Status.Reservations
	}
	l.devices[device.Name] = device
	l.byNode.add(device.Spec.NodeName, device.Name)
	l.bySerial.add(device.Spec.SerialNumber, device.Name)
	change := l.compare(device.Name, before, device.Status.Reservations)
	if old != nil && driveOf(old) != driveOf(device) {
		change.merge(l.rebuild(old.Spec.NodeName))
		change.merge(l.rebuildSerial(old.Spec.SerialNumber))
	}
	change.merge(l.rebuildSerial(device.Spec.SerialNumber))
	change.merge(l.recheck(device))
	change.Devices = append(change.Devices, device.Name)
	return change
}

// newer tells whether version a comes after b. Versions that cannot be compared
// are taken as they come.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}

// compare takes note of the reservations that a device got and lost. A partition
// that got one is to be placed now, whoever reserved; what was decided for it
// is settled.
func (l *Ledger) compare(device string, before, after []v1alpha1.Reservation) Change {
	var change Change
	lost := map[types.UID]v1alpha1.ObjectReference{}
	for i := range before {
		lost[before[i].UID] = before[i].ObjectReference
	}
	for i := range after {
		ref := after[i].ObjectReference
		if _, had := lost[ref.UID]; had {
			delete(lost, ref.UID)
			continue
		}
		l.reservedOn.add(string(ref.UID), device)
		change.merge(l.undecide(ref.UID))
		change.Decide = append(change.Decide, keyOf(ref))
	}
	for uid, ref := range lost {
		l.reservedOn.remove(string(uid), device)
		if len(l.reservedOn[string(uid)]) == 0 {
			delete(l.gone, uid)
		}
		change.Decide = append(change.Decide, keyOf(ref))
	}
	return change
}

// recheck drops the decisions for a device that what is known of it now does not
// allow; the others are to be reserved.
func (l *Ledger) recheck(device *v1alpha1.NVMeDevice) Change {
	decided := l.decidedFor[device.Name]
	if len(decided) == 0 {
		return Change{}
	}
	load, largest := l.load(device), device.Status.LargestFreeExtent
	stands := load.Used <= device.Spec.TotalCapacity && load.Partitions <= v1alpha1.MaxReservations &&
		len(load.Holders) == 1 && (largest == 0 || load.Uncarved <= largest)
	for _, d := range decided {
		stands = stands && device.Status.ClaimRef != nil && device.Status.ClaimRef.UID == d.claim
	}
	if stands {
		return Change{Reserve: []string{device.Name}}
	}
	var change Change
	for uid, d := range decided {
		change.merge(l.undecide(uid))
		change.Decide = append(change.Decide, d.key())
	}
	return change
}
