package placement

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/eligibility"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// changes collects what a Ledger tells from now on.
func changes(l *Ledger) *Change {
	all := &Change{}
	l.Subscribe(func(c Change) { all.merge(c) })
	return all
}

func TestDecisionCountsAtOnceAndIsPlacedOnceReserved(t *testing.T) {
	l := newLedger(fixed, 2*unit)
	told := changes(l)
	p := aPartition("p", 2*unit)
	if device := mustDecide(t, l, p); device != "d1" || !slices.Equal(told.Reserve, []string{"d1"}) {
		t.Fatalf("decided for %q and told to reserve on %v, want d1", device, told.Reserve)
	}
	if attempt := l.Place(p); attempt != (Attempt{}) {
		t.Fatalf("before the reservation there is nothing to do, got %+v", attempt)
	}
	if attempt := l.Place(aPartition("q", unit)); !strings.Contains(attempt.Refusal, string(eligibility.NoSpace)) {
		t.Fatalf("the space of a decision was given away: %+v", attempt)
	}
	device := reserve(t, l, "d1")
	if diff := cmp.Diff([]v1alpha1.Reservation{aReservation("p", 2*unit)}, device.Status.Reservations); diff != "" || *device.Status.FreeCapacity != 0 {
		t.Errorf("%d bytes free, want none; reservations (-want +got):\n%s", *device.Status.FreeCapacity, diff)
	}
	if !slices.Equal(told.Decide, []client.ObjectKey{client.ObjectKeyFromObject(p)}) {
		t.Errorf("told to look at %v, want p", told.Decide)
	}
	placement := l.Place(p).Placement
	if placement == nil || placement.Device != "d1" || placement.Claim.UID != "claim-d1" {
		t.Fatalf("placement %+v, want drive d1 by its claim", placement)
	}
	l.partitionSeen(placed(p, placement, "2"))
	l.partitionSeen(p) // the watch is out of order
	if attempt := l.Place(aPartition("q", unit)); attempt.Refusal == "" {
		t.Fatal("the space of a placed partition was given away")
	}
	l.partitionGone(placed(p, placement, "2"))
	if device := reserve(t, l, "d1"); len(device.Status.Reservations) != 0 || *device.Status.FreeCapacity != 2*unit {
		t.Errorf("reservations %+v and %d bytes free after the partition went", device.Status.Reservations, *device.Status.FreeCapacity)
	}
	mustPlace(t, l, aPartition("q", unit))
}

func TestReservationOfAnotherManagerIsKept(t *testing.T) {
	l := newLedger(fixed, 4*unit, 9*unit)
	d := aDevice("d1", "n1", 4*unit)
	d.Status.Reservations = []v1alpha1.Reservation{aReservation("p", 3*unit)}
	l.deviceSeen(d)
	if attempt := l.Place(aPartition("p", 3*unit)); attempt.Placement == nil || attempt.Placement.Device != "d1" {
		t.Errorf("got %+v, want the placement on d1 that is reserved, though d2 is roomier", attempt)
	}
	if got := free(t, l, "d1"); got != unit {
		t.Errorf("%d units free, want 1", got/unit)
	}
	if attempt := l.Place(aPartition("p", 4*unit)); !strings.Contains(attempt.Refusal, "drive d1 is reserved for it with 12582912 bytes, and it asks for 16777216") {
		t.Errorf("more than was reserved: got %+v", attempt)
	}
	d = d.DeepCopy()
	d.Status.ClaimRef = nil
	l.deviceSeen(d)
	if attempt := l.Place(aPartition("p", 3*unit)); !strings.Contains(attempt.Refusal, "is not claimed any more") {
		t.Errorf("without claim: got %+v", attempt)
	}
}

func TestReservationIsDroppedWhenItsPartition(t *testing.T) {
	at := func(l *Ledger, device string) *Placement {
		d := l.devices[device]
		return &Placement{DriveID: driveOf(d), Device: device, Claim: *d.Status.ClaimRef}
	}
	cases := map[string]struct {
		event func(*Ledger)
		drops bool
	}{
		"is placed elsewhere":                   {func(l *Ledger) { l.partitionSeen(placed(aPartition("p", unit), at(l, "d2"), "2")) }, true},
		"is gone":                               {func(l *Ledger) { l.partitionGone(aPartition("p", unit)) }, true},
		"is gone, as was read":                  {func(l *Ledger) { l.Gone("p") }, true},
		"is placed here":                        {func(l *Ledger) { l.partitionSeen(placed(aPartition("p", unit), at(l, "d1"), "2")) }, false},
		"is not placed yet":                     {func(l *Ledger) { l.partitionSeen(aPartition("p", unit)) }, false},
		"was never seen":                        {func(*Ledger) {}, false},
		"is placed elsewhere, and then is gone": {func(l *Ledger) { l.partitionSeen(placed(aPartition("p", unit), at(l, "d2"), "2")); l.Gone("p") }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLedger(fixed, 4*unit, 9*unit)
			d := aDevice("d1", "n1", 4*unit)
			d.Status.Reservations = []v1alpha1.Reservation{aReservation("p", unit)}
			l.deviceSeen(d)
			told := changes(l)
			tc.event(l)
			plan, _ := l.Plan("d1")
			if dropped := len(plan.Reservations) == 0; dropped != tc.drops {
				t.Fatalf("planned reservations %+v, want them dropped %v", plan.Reservations, tc.drops)
			}
			if tc.drops && !slices.Contains(told.Devices, "d1") {
				t.Errorf("told of devices %v, want d1 to be written", told.Devices)
			}
			l.Wrote(planned(plan))
			if len(l.gone) != 0 {
				t.Errorf("remembers %v although no device reserves for them", l.gone)
			}
		})
	}
}

func TestUnsettledAreTheReservationsOfPartitionsThatAreNotPlaced(t *testing.T) {
	l := newLedger(fixed, 9*unit)
	p := aPartition("p", unit)
	l.partitionSeen(placed(p, mustPlace(t, l, p), "2"))
	mustPlace(t, l, aPartition("q", unit))
	mustDecide(t, l, aPartition("r", unit))
	if got := l.Unsettled("d1"); len(got) != 1 || got[0].Name != "q" {
		t.Errorf("unsettled %v, want q alone", got)
	}
	l.Gone("q")
	if got := l.Unsettled("d1"); len(got) != 0 {
		t.Errorf("unsettled %v after it went", got)
	}
}

func TestDecisionFallsWhenTheDriveChangedUnderIt(t *testing.T) {
	cases := map[string]struct {
		change func(*v1alpha1.NVMeDevice)
		stands bool
	}{
		"an own condition": {func(d *v1alpha1.NVMeDevice) { d.Status.Conditions[1].Message = "looked again" }, true},
		"a reservation that leaves it": {func(d *v1alpha1.NVMeDevice) {
			d.Status.Reservations = []v1alpha1.Reservation{aReservation("other", 2*unit)}
		}, true},
		"a reservation of its space": {func(d *v1alpha1.NVMeDevice) {
			d.Status.Reservations = []v1alpha1.Reservation{aReservation("other", 3*unit)}
		}, false},
		"a reservation for another backend": {func(d *v1alpha1.NVMeDevice) {
			r := aReservation("other", unit)
			r.TargetBackend = v1alpha1.BackendSPDK
			d.Status.Reservations = []v1alpha1.Reservation{r}
		}, false},
		"another owner":  {func(d *v1alpha1.NVMeDevice) { d.Status.ClaimRef.UID = "next" }, false},
		"no owner":       {func(d *v1alpha1.NVMeDevice) { d.Status.ClaimRef = nil }, false},
		"a smaller gap":  {func(d *v1alpha1.NVMeDevice) { d.Status.LargestFreeExtent = unit }, false},
		"a smaller size": {func(d *v1alpha1.NVMeDevice) { d.Spec.TotalCapacity = unit }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLedger(fixed, 4*unit)
			mustDecide(t, l, aPartition("p", 2*unit))
			told := changes(l)
			d := aDevice("d1", "n1", 4*unit)
			tc.change(d)
			l.deviceSeen(d)
			stands := decidedDevice(l, aPartition("p", 2*unit)) == "d1"
			if stands != tc.stands {
				t.Fatalf("the decision stands %v, want %v", stands, tc.stands)
			}
			again := slices.ContainsFunc(told.Decide, func(k client.ObjectKey) bool { return k.Name == "p" })
			if again == stands || stands != slices.Contains(told.Reserve, "d1") {
				t.Errorf("told to decide %v and to reserve %v", told.Decide, told.Reserve)
			}
		})
	}
}

func TestOlderStateOfADeviceChangesNothing(t *testing.T) {
	l := newLedger(fixed, 4*unit)
	state := func(version string, reservations ...v1alpha1.Reservation) *v1alpha1.NVMeDevice {
		d := aDevice("d1", "n1", 4*unit)
		d.ResourceVersion, d.Status.Reservations = version, reservations
		return d
	}
	l.deviceSeen(state("9"))
	l.Wrote(state("10", aReservation("p", unit)))
	l.deviceSeen(state("9"))
	if plan, _ := l.Plan("d1"); len(plan.Reservations) != 1 || plan.Device.ResourceVersion != "10" {
		t.Errorf("plan %+v from an older state", plan)
	}
	l.deviceGone(state("11"))
	l.Wrote(state("10", aReservation("p", unit)))
	if _, known := l.Plan("d1"); known {
		t.Error("the answer to a write brought a device back that is gone")
	}
}

func TestPartitionsOfAFormerVersionAreReservedFor(t *testing.T) {
	l := newLedger(fixed, 4*unit)
	p := placed(aPartition("p", 3*unit), &Placement{DriveID: DriveID{"n1", "serial-d1"}}, "2")
	told := changes(l)
	l.partitionSeen(p)
	plan, _ := l.Plan("d1")
	if !plan.Due() || !slices.Contains(told.Devices, "d1") || len(plan.Reservations) != 1 || *plan.Free != unit {
		t.Errorf("plan %+v, told %+v: want the placed partition reserved for", plan, told)
	}
}

// TestFragmentation: an extent of 4 of the 9 units that are free is the largest.
func TestFragmentation(t *testing.T) {
	l := newLedger(fixed, 12*unit)
	d := aDevice("d1", "n1", 12*unit)
	d.Status.LargestFreeExtent = 4 * unit
	l.deviceSeen(d)
	at := &Placement{DriveID: DriveID{"n1", "serial-d1"}}
	carved := placed(aPartition("carved", 3*unit), at, "2")
	carved.Status.AllocatedCapacity = 3 * unit
	l.partitionSeen(carved)

	refused := func(size int64, reason Reason) {
		t.Helper()
		if attempt := l.Place(aPartition("probe", size)); !strings.Contains(attempt.Refusal, "1 "+string(reason)) {
			t.Errorf("%d units: got %+v, want refusal %q", size/unit, attempt, reason)
		}
	}
	refused(10*unit, eligibility.NoSpace)
	refused(5*unit, eligibility.Fragmented)
	mustPlace(t, l, aPartition("uncarved", 2*unit)) // the agent may cut it out of the largest extent
	refused(3*unit, eligibility.Fragmented)
	mustDecide(t, l, aPartition("decided", unit))
	refused(2*unit, eligibility.Fragmented)
	grown := carved.DeepCopy()
	grown.Spec.Size = 4 * unit
	l.partitionSeen(grown)
	refused(unit, eligibility.Fragmented)

	told := changes(l)
	d = reserve(t, l, "d1").DeepCopy()
	d.Status.LargestFreeExtent = 8 * unit
	l.deviceSeen(d)
	if !told.Room {
		t.Error("a larger gap woke nobody")
	}
	mustPlace(t, l, aPartition("fits", 4*unit))
}

func TestSlowListDoesNotBringBackWhatTheWatchSawGo(t *testing.T) {
	p := placed(aPartition("p", unit), &Placement{DriveID: DriveID{"n1", "serial-d1"}}, "2")
	l := newLedger(fixed, 4*unit)
	l.registrations = append(l.registrations, synced{})
	l.live = listing{items: []v1alpha1.NVMePartition{*p}, during: func() { l.partitionGone(p) }}
	if err := l.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := free(t, l, "d1"); got != 4*unit {
		t.Errorf("%d units free, want 4: the partition is gone", got/unit)
	}
}

func TestDecisionsThatGatherDuringAWriteShareTheNext(t *testing.T) {
	l := newLedger(fixed, 9*unit)
	mustDecide(t, l, aPartition("first", unit))
	underWay, _ := l.Plan("d1")
	for _, name := range []string{"second", "third", "fourth"} {
		mustDecide(t, l, aPartition(name, unit))
	}
	told := changes(l)
	l.Wrote(planned(underWay))
	if len(told.Decide) != 1 || !slices.Contains(told.Reserve, "d1") {
		t.Fatalf("told to place %v and to reserve on %v, want the first to be placed and d1 to be written again", told.Decide, told.Reserve)
	}
	if device := reserve(t, l, "d1"); len(device.Status.Reservations) != 4 || len(told.Decide) != 4 {
		t.Errorf("%d reservations after two writes, told to place %v, want 4", len(device.Status.Reservations), told.Decide)
	}
	if plan, _ := l.Plan("d1"); plan.Due() {
		t.Errorf("the plan %+v is due although it was written", plan)
	}
}
