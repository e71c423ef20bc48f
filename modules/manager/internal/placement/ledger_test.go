package placement

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/eligibility"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

func TestLedgerRefuses(t *testing.T) {
	falseOf := func(all []metav1.Condition, kind string) {
		for i := range all {
			if all[i].Type == kind {
				all[i].Status = metav1.ConditionFalse
			}
		}
	}
	device := func(change func(*v1alpha1.NVMeDevice)) func(*Ledger) {
		return func(l *Ledger) { d := aDevice("d1", "n1", 9*unit); change(d); l.deviceSeen(d) }
	}
	claim := func(change func(*v1alpha1.NVMeDeviceClaim)) func(*Ledger) {
		return func(l *Ledger) { c := aClaim("d1", "n1"); change(c); l.claimSeen(c) }
	}
	storage := func(change func(*v1alpha1.RDMAStorageNode)) func(*Ledger) {
		return func(l *Ledger) { n := aNode("n1"); change(n); l.nodeSeen(n) }
	}
	owner := func(change func(*v1alpha1.StorageNode)) func(*Ledger) {
		return func(l *Ledger) {
			o := &v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: v1alpha1.StorageNodeSpec{NetworkDomain: "default"}}
			change(o)
			l.ownerSeen(o)
		}
	}
	cases := map[string]struct {
		alter func(*Ledger)
		want  Reason
	}{
		"a drive without claim": {device(func(d *v1alpha1.NVMeDevice) { d.Status.ClaimRef = nil }), eligibility.DriveUnclaimed},
		"a drive of another life of the claim": {device(func(d *v1alpha1.NVMeDevice) {
			d.Status.ClaimRef.UID = "former"
		}), eligibility.ClaimInactive},
		"a claim that is not active": {claim(func(c *v1alpha1.NVMeDeviceClaim) { c.Status.Active = false }), eligibility.ClaimInactive},
		"a claim of another serial": {func(l *Ledger) {
			c := aClaim("d1", "n1")
			c.Spec.SerialNumber = "serial-d2"
			l.claimSeen(c)
			l.deviceSeen(aDevice("d1", "n1", 9*unit))
		}, eligibility.ClaimInactive},
		"a claim on another node":       {claim(func(c *v1alpha1.NVMeDeviceClaim) { c.Status.NodeName = "n2" }), eligibility.ClaimInactive},
		"a claim that is being deleted": {claim(func(c *v1alpha1.NVMeDeviceClaim) { c.DeletionTimestamp = ptr.To(metav1.Now()) }), eligibility.ClaimInactive},
		"a claim that is closed":        {func(l *Ledger) { l.CloseClaim(aClaim("d1", "n1")) }, eligibility.ClaimInactive},
		"a claim that is gone":          {func(l *Ledger) { l.claimGone(aClaim("d1", "n1")) }, eligibility.ClaimInactive},
		"a serial number in two nodes": {func(l *Ledger) {
			d := aDevice("d9", "n9", unit)
			d.Spec.SerialNumber = "serial-d1"
			d.Status.ClaimRef = nil
			l.deviceSeen(d)
		}, eligibility.DuplicateSerial},
		"a drive that is not there": {device(func(d *v1alpha1.NVMeDevice) {
			falseOf(d.Status.Conditions, v1alpha1.ConditionHardwareAvailable)
		}), eligibility.DriveUnavailable},
		"a drive with foreign content": {device(func(d *v1alpha1.NVMeDevice) {
			falseOf(d.Status.Conditions, v1alpha1.ConditionMediaUsable)
		}), eligibility.DriveUnusable},
		"a cordoned drive": {device(func(d *v1alpha1.NVMeDevice) {
			d.Annotations = map[string]string{v1alpha1.CordonedAnnotation: "yes"}
		}), eligibility.DriveCordoned},
		"a drive with as many partitions as it can hold": {device(func(d *v1alpha1.NVMeDevice) {
			d.Spec.TotalCapacity = 99999 * unit
			for i := range v1alpha1.MaxReservations {
				d.Status.Reservations = append(d.Status.Reservations, aReservation(fmt.Sprintf("r%d", i), unit))
			}
		}), eligibility.TooManyPartitions},
		"a drive without a gap that is large enough": {device(func(d *v1alpha1.NVMeDevice) { d.Status.LargestFreeExtent = unit / 2 }), eligibility.Fragmented},
		"a drive locked by another backend": {device(func(d *v1alpha1.NVMeDevice) {
			d.Status.ActiveBackend = v1alpha1.ActiveBackendSPDK
		}), eligibility.BackendElsewhere},
		"a node that is gone": {func(l *Ledger) { l.nodeGone(aNode("n1")) }, eligibility.NodeUnknown},
		"a node that is not ready": {storage(func(n *v1alpha1.RDMAStorageNode) {
			falseOf(n.Status.Conditions, v1alpha1.ConditionReady)
		}), eligibility.NodeNotReady},
		"a node whose scan was incomplete": {storage(func(n *v1alpha1.RDMAStorageNode) {
			falseOf(n.Status.Conditions, v1alpha1.ConditionNVMeInventoryReady)
		}), eligibility.InventoryIncomplete},
		"a node without portal": {storage(func(n *v1alpha1.RDMAStorageNode) { n.Spec.Portals = nil }), eligibility.NoTCPPortal},
		"a disabled owner":      {owner(func(o *v1alpha1.StorageNode) { o.Spec.Enabled = ptr.To(false) }), eligibility.NodeDisabled},
		"a cordoned owner": {owner(func(o *v1alpha1.StorageNode) {
			o.Annotations = map[string]string{v1alpha1.CordonedAnnotation: ""}
		}), eligibility.NodeCordoned},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLedger(fixed, 9*unit)
			tc.alter(l)
			attempt := l.Place(aPartition("p", unit))
			if decidedDevice(l, aPartition("p", unit)) != "" || !strings.Contains(attempt.Refusal, "1 "+string(tc.want)) {
				t.Errorf("got %+v, want a refusal with one %q", attempt, tc.want)
			}
		})
	}
}

func TestLedgerAccepts(t *testing.T) {
	cases := map[string]func(*Ledger){
		"as it is": func(*Ledger) {},
		"a serial number that another node had before the drive was moved": func(l *Ledger) {
			d := aDevice("d9", "n9", unit)
			d.Spec.SerialNumber, d.Status.ClaimRef = "serial-d1", nil
			d.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionHardwareAvailable, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotFound}}
			l.deviceSeen(d)
		},
		"a cordon that was lifted": func(l *Ledger) {
			d := aDevice("d1", "n1", 9*unit)
			d.Annotations = map[string]string{v1alpha1.CordonedAnnotation: "false"}
			l.deviceSeen(d)
		},
		"the backend that has the drive": func(l *Ledger) {
			d := aDevice("d1", "n1", 9*unit)
			d.Status.ActiveBackend = v1alpha1.ActiveBackendKernel
			l.deviceSeen(d)
		},
		"an owner that says nothing of being enabled": func(l *Ledger) {
			l.ownerSeen(&v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: v1alpha1.StorageNodeSpec{NetworkDomain: "rack-1"}})
		},
	}
	for name, alter := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLedger(fixed, 9*unit)
			alter(l)
			mustPlace(t, l, aPartition("p", unit))
		})
	}
}

func TestTheStorageNodeNamesTheDomain(t *testing.T) {
	l := newLedger(fixed, 9*unit, 9*unit)
	l.ownerSeen(&v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Spec: v1alpha1.StorageNodeSpec{NetworkDomain: "rack-2"}})
	p := aPartition("p", unit)
	p.Spec.Topology = &v1alpha1.TopologyRequirement{Requisite: []v1alpha1.DomainName{"rack-2"}}
	if got := mustPlace(t, l, p).Node; got != "n2" {
		t.Errorf("placed on node %s, want n2 in rack-2", got)
	}
	p = aPartition("q", unit)
	p.Spec.Topology = &v1alpha1.TopologyRequirement{Requisite: []v1alpha1.DomainName{"default"}}
	if got := mustPlace(t, l, p).Node; got != "n1" {
		t.Errorf("placed on node %s, want n1 in the default domain", got)
	}
}

func TestSilentNodeIsNotChosenUntilItIsHeardAgain(t *testing.T) {
	at := now
	l := newLedger(func() time.Time { return at }, 9*unit)
	var room int
	l.Subscribe(func(c Change) {
		if c.Room {
			room++
		}
	})
	at = now.Add(45 * time.Second)
	if attempt := l.Place(aPartition("p", unit)); !strings.Contains(attempt.Refusal, string(NodeSilent)) {
		t.Fatalf("refusal %q, want %q", attempt.Refusal, NodeSilent)
	}
	l.leaseSeen(aLease("n1", at))
	if room != 1 {
		t.Errorf("the end of the silence made room %d times, want 1", room)
	}
	at = at.Add(15 * time.Second)
	l.leaseSeen(aLease("n1", at))
	if room != 1 {
		t.Error("a mere renewal woke those who wait")
	}
	mustPlace(t, l, aPartition("p", unit))
}

func TestSpaceCountsEveryAssignedPartition(t *testing.T) {
	l := newLedger(fixed, 16*unit)
	ref := v1alpha1.ObjectReference{Namespace: "default", Name: "claim-d1", UID: "claim-d1"}
	on := func(name string, size int64, change func(*v1alpha1.NVMePartition)) {
		p := placed(aPartition(name, size), &Placement{DriveID: DriveID{"n1", "serial-d1"}, Device: "d1", Claim: ref}, "2")
		change(p)
		l.partitionSeen(p)
	}
	steps := []struct {
		name string
		do   func()
		want int64
	}{
		{"nothing", func() {}, 16 * unit},
		{"one", func() { on("a", 2*unit, func(*v1alpha1.NVMePartition) {}) }, 14 * unit},
		{"one in another namespace", func() { on("b", unit, func(p *v1alpha1.NVMePartition) { p.Namespace = "elsewhere" }) }, 13 * unit},
		{"a terminating one", func() {
			on("c", unit, func(p *v1alpha1.NVMePartition) { p.DeletionTimestamp = ptr.To(metav1.Now()) })
		}, 12 * unit},
		{"one that is no multiple of the unit", func() { on("d", unit+1, func(*v1alpha1.NVMePartition) {}) }, 10 * unit},
		{"one that grew", func() { on("a", 3*unit, func(*v1alpha1.NVMePartition) {}) }, 9 * unit},
		{"one whose backend took more", func() {
			on("b", unit, func(p *v1alpha1.NVMePartition) { p.Status.AllocatedCapacity = 2 * unit })
		}, 8 * unit},
		{"more than there is", func() { on("e", 99*unit, func(*v1alpha1.NVMePartition) {}) }, 0},
		{"that gone", func() { l.partitionGone(aPartition("e", 99*unit)) }, 8 * unit},
	}
	for _, step := range steps {
		step.do()
		if free := free(t, l, "d1"); free != step.want {
			t.Errorf("%s: %d units free, want %d", step.name, free/unit, step.want/unit)
		}
		if free := l.NodeSpace("n1"); free != step.want {
			t.Errorf("%s: %d units free on the node, want %d", step.name, free/unit, step.want/unit)
		}
	}
}

func TestUnclaimedDriveGivesNothing(t *testing.T) {
	l := newLedger(fixed, 4*unit)
	d := aDevice("d2", "n1", 4*unit)
	d.Status.ClaimRef = nil
	l.deviceSeen(d)
	if got := free(t, l, "d2"); got != -1 {
		t.Errorf("an unclaimed drive has %d bytes of free space", got)
	}
	if got := l.NodeSpace("n1"); got != 4*unit {
		t.Errorf("node has %d units free, want those of the claimed drive alone", got/unit)
	}
}

func TestHoldersAreThosePlacedReservedAndDecided(t *testing.T) {
	l := newLedger(fixed, 9*unit)
	p, q, r := aPartition("p", unit), aPartition("q", unit), aPartition("r", unit)
	l.partitionSeen(placed(p, mustPlace(t, l, p), "2"))
	mustPlace(t, l, q)
	mustDecide(t, l, r)
	l.CloseClaim(aClaim("d1", "n1"))
	elsewhere := &Placement{DriveID: DriveID{"n7", "serial-d1"}, Device: "d7", Claim: v1alpha1.ObjectReference{UID: "other"}}
	l.partitionSeen(placed(aPartition("z", unit), elsewhere, "2"))
	key := func(name string) client.ObjectKey {
		return client.ObjectKey{Namespace: "distort-system", Name: name}
	}
	want := []Holder{
		{key("p"), "n1", "claim-d1"}, {key("q"), "n1", "claim-d1"}, {key("r"), "n1", "claim-d1"}, {key("z"), "n7", "other"},
	}
	if diff := cmp.Diff(want, l.Holders("serial-d1")); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
	var released []string
	l.Subscribe(func(c Change) { released = append(released, c.Released...) })
	for _, gone := range []*v1alpha1.NVMePartition{p, q, r} {
		l.partitionGone(gone)
	}
	if diff := cmp.Diff(want[3:], l.Holders("serial-d1")); diff != "" || len(released) != 1 {
		t.Errorf("released %v, want the serial number of the one that was placed; holders (-want +got):\n%s", released, diff)
	}
}

func TestWaitingIsWokenByRoomAlone(t *testing.T) {
	ref := v1alpha1.ObjectReference{Namespace: "default", Name: "claim-d1", UID: "claim-d1"}
	placement := &Placement{DriveID: DriveID{"n1", "serial-d1"}, Device: "d1", Claim: ref}
	cases := map[string]struct {
		event func(*Ledger)
		want  bool
	}{
		"a partition gone":           {func(l *Ledger) { l.partitionGone(aPartition("full", 4*unit)) }, true},
		"another partition":          {func(l *Ledger) { l.partitionSeen(placed(aPartition("more", unit), placement, "2")) }, false},
		"the same device again":      {func(l *Ledger) { l.deviceSeen(aDevice("d1", "n1", 4*unit)) }, false},
		"a larger device":            {func(l *Ledger) { l.deviceSeen(aDevice("d1", "n1", 8*unit)) }, true},
		"another device":             {func(l *Ledger) { l.deviceSeen(aDevice("d2", "n1", unit)) }, false},
		"a claim for another device": {func(l *Ledger) { l.deviceSeen(aDevice("d2", "n1", unit)); l.claimSeen(aClaim("d2", "n1")) }, true},
		"a portal of another transport": {func(l *Ledger) {
			n := aNode("n1")
			n.Spec.Portals[0].Transport = v1alpha1.TransportRDMA
			l.nodeSeen(n)
		}, true},
		"a node that is gone": {func(l *Ledger) { l.nodeGone(aNode("n1")) }, false},
		"the own free capacity, written": {func(l *Ledger) {
			d := aDevice("d1", "n1", 4*unit)
			d.Status.FreeCapacity = ptr.To[int64](0)
			l.deviceSeen(d)
		}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLedger(fixed, 4*unit)
			l.partitionSeen(placed(aPartition("full", 4*unit), placement, "2"))
			if attempt := l.Place(aPartition("p", unit)); attempt.Refusal == "" {
				t.Fatal("a full drive was chosen")
			}
			if waiting := l.Waiting(); len(waiting) != 1 || waiting[0].Name != "p" {
				t.Fatalf("waiting %v, want p", waiting)
			}
			woken := false
			cancel := l.Subscribe(func(c Change) { woken = woken || c.Room })
			tc.event(l)
			if woken != tc.want {
				t.Errorf("woken %v, want %v", woken, tc.want)
			}
			cancel()
			woken = false
			l.deviceSeen(aDevice("d7", "n1", 100*unit))
			if woken {
				t.Error("told after it unsubscribed")
			}
		})
	}
}

func TestSources(t *testing.T) {
	ref := func(kind v1alpha1.VolumeKind, uid types.UID) *v1alpha1.VolumeSource {
		return &v1alpha1.VolumeSource{Volume: &v1alpha1.VolumeReference{Kind: kind, Namespace: "distort-system", Name: "s", UID: uid}}
	}
	cases := map[string]struct {
		source  *v1alpha1.VolumeSource
		device  string
		refusal string
	}{
		"a clone stays with its source, though another drive is roomier": {source: ref(v1alpha1.KindNVMePartition, "s"), device: "d1"},
		"a source that is not placed":                                    {source: ref(v1alpha1.KindNVMePartition, "t"), refusal: "source NVMePartition distort-system/s is not placed"},
		"a source in a pool":                                             {source: ref(v1alpha1.KindVolume, "v"), refusal: "a drive cannot hold a copy of Volume s"},
		"a snapshot":                                                     {source: &v1alpha1.VolumeSource{Snapshot: &v1alpha1.SnapshotReference{Name: "snap"}}, refusal: "snapshot snap cannot be restored to a drive"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLedger(fixed, 9*unit, 8*unit)
			s := aPartition("s", 4*unit)
			l.partitionSeen(placed(s, mustPlace(t, l, s), "2"))
			p := aPartition("p", unit)
			p.Spec.Source = tc.source
			attempt := l.Place(p)
			if got := decidedDevice(l, p); got != tc.device {
				t.Errorf("drive %q, want %q; %+v", got, tc.device, attempt)
			}
			if tc.refusal != "" && !strings.HasPrefix(attempt.Refusal, tc.refusal) {
				t.Errorf("refusal %q, want %q", attempt.Refusal, tc.refusal)
			}
		})
	}
}

func TestNearAreTheTransportsOnTheNUMANodeOfTheDrive(t *testing.T) {
	portal := func(transport v1alpha1.Transport, numa *int32) v1alpha1.NodePortal {
		return v1alpha1.NodePortal{Portal: v1alpha1.Portal{Transport: transport}, NUMANode: numa}
	}
	node := aNode("n1")
	node.Spec.Portals = []v1alpha1.NodePortal{
		portal(v1alpha1.TransportRDMA, ptr.To[int32](1)), portal(v1alpha1.TransportRDMA, ptr.To[int32](1)),
		portal(v1alpha1.TransportTCP, ptr.To[int32](0)), portal(v1alpha1.TransportTCP, nil),
	}
	for name, tc := range map[string]struct {
		numa *int32
		node *v1alpha1.RDMAStorageNode
		want []v1alpha1.Transport
	}{
		"node 0":       {ptr.To[int32](0), node, []v1alpha1.Transport{v1alpha1.TransportTCP}},
		"node 1":       {ptr.To[int32](1), node, []v1alpha1.Transport{v1alpha1.TransportRDMA}},
		"node 2":       {ptr.To[int32](2), node, nil},
		"unknown":      {nil, node, nil},
		"unknown host": {ptr.To[int32](0), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := aDevice("d1", "n1", unit)
			d.Spec.NUMANode = tc.numa
			if diff := cmp.Diff(tc.want, nearTo(d, tc.node)); diff != "" {
				t.Errorf("transports (-want +got):\n%s", diff)
			}
		})
	}
}
