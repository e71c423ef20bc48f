package placement

import (
	"context"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/heartbeat"
)

func conditions(kinds ...string) []metav1.Condition {
	var all []metav1.Condition
	for _, kind := range kinds {
		all = append(all, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Tested"})
	}
	return all
}

func aDevice(name, node string, total int64) *v1alpha1.NVMeDevice {
	return &v1alpha1.NVMeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.NVMeDeviceSpec{NodeName: node, SerialNumber: "serial-" + name, TotalCapacity: total},
		Status: v1alpha1.NVMeDeviceStatus{
			ClaimRef:   &v1alpha1.ObjectReference{Namespace: "default", Name: "claim-" + name, UID: types.UID("claim-" + name)},
			Conditions: conditions(v1alpha1.ConditionHardwareAvailable, v1alpha1.ConditionMediaUsable),
		},
	}
}

func aClaim(device, node string) *v1alpha1.NVMeDeviceClaim {
	return &v1alpha1.NVMeDeviceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim-" + device, UID: types.UID("claim-" + device)},
		Spec:       v1alpha1.NVMeDeviceClaimSpec{SerialNumber: "serial-" + device},
		Status:     v1alpha1.NVMeDeviceClaimStatus{Active: true, MatchedDevice: device, NodeName: node},
	}
}

func aNode(name string) *v1alpha1.RDMAStorageNode {
	return &v1alpha1.RDMAStorageNode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.RDMAStorageNodeSpec{NodeName: name, Portals: []v1alpha1.NodePortal{
			{Portal: v1alpha1.Portal{Transport: v1alpha1.TransportTCP, Address: "10.0.0.1", Port: 4420}},
		}},
		Status: v1alpha1.RDMAStorageNodeStatus{Conditions: conditions(v1alpha1.ConditionReady, v1alpha1.ConditionNVMeInventoryReady)},
	}
}

func aLease(node string, renewed time.Time) *coordinationv1.Lease {
	micro := metav1.NewMicroTime(renewed)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseNamePrefix + node},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &micro},
	}
}

func aPartition(name string, size int64) *v1alpha1.NVMePartition {
	return &v1alpha1.NVMePartition{
		ObjectMeta: metav1.ObjectMeta{Namespace: "distort-system", Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Spec:       v1alpha1.NVMePartitionSpec{Size: size, TargetBackend: v1alpha1.BackendKernel, Transport: v1alpha1.TransportTCP},
	}
}

func aReservation(partition string, size int64) v1alpha1.Reservation {
	return v1alpha1.Reservation{
		ObjectReference: v1alpha1.ObjectReference{Namespace: "distort-system", Name: partition, UID: types.UID(partition)},
		Size:            size, TargetBackend: v1alpha1.BackendKernel,
	}
}

func placed(p *v1alpha1.NVMePartition, placement *Placement, version string) *v1alpha1.NVMePartition {
	p = p.DeepCopy()
	p.ResourceVersion = version
	p.Spec.NodeName, p.Spec.ParentDeviceSerialNumber, p.Spec.ClaimRef = placement.Node, placement.Serial, &placement.Claim
	return p
}

// newLedger is a Ledger with drives of these sizes, each in a node of its own
// where drive d1 is in node n1.
func newLedger(clock func() time.Time, sizes ...int64) *Ledger {
	l := NewLedger(LedgerOptions{Clock: clock, Heartbeats: heartbeat.NewTracker(clock), DefaultDomain: "default"})
	for i, size := range sizes {
		device, node := fmt.Sprintf("d%d", i+1), fmt.Sprintf("n%d", i+1)
		l.deviceSeen(aDevice(device, node, size))
		l.claimSeen(aClaim(device, node))
		l.nodeSeen(aNode(node))
		l.leaseSeen(aLease(node, clock()))
	}
	return l
}

func fixed() time.Time { return now }

// reserve writes the plan of a device, as package capacity does.
func reserve(t *testing.T, l *Ledger, device string) *v1alpha1.NVMeDevice {
	t.Helper()
	plan, known := l.Plan(device)
	if !known {
		t.Fatalf("no plan for device %s", device)
	}
	d := planned(plan)
	l.Wrote(d)
	return d
}

// planned is the device as it is after the plan was written.
func planned(plan Plan) *v1alpha1.NVMeDevice {
	d := plan.Device.DeepCopy()
	d.Status.Reservations, d.Status.FreeCapacity = plan.Reservations, plan.Free
	return d
}

// decidedDevice is the device that a partition was decided for.
func decidedDevice(l *Ledger, p *v1alpha1.NVMePartition) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.decided[p.UID]; d != nil {
		return d.device
	}
	return ""
}

// mustDecide asks for a partition's place and fails the test when there is none.
func mustDecide(t *testing.T, l *Ledger, p *v1alpha1.NVMePartition) (device string) {
	t.Helper()
	attempt := l.Place(p)
	if device = decidedDevice(l, p); device == "" {
		t.Fatalf("nothing is decided for partition %s: %+v", p.Name, attempt)
	}
	return device
}

// mustPlace places a partition with all steps and fails the test when there is
// no room.
func mustPlace(t *testing.T, l *Ledger, p *v1alpha1.NVMePartition) *Placement {
	t.Helper()
	reserve(t, l, mustDecide(t, l, p))
	attempt := l.Place(p)
	if attempt.Placement == nil {
		t.Fatalf("partition %s is not placed after its reservation: refusal %q", p.Name, attempt.Refusal)
	}
	return attempt.Placement
}

// free is what is left of a device in bytes, or -1 when it is not claimed.
func free(t *testing.T, l *Ledger, device string) int64 {
	t.Helper()
	plan, known := l.Plan(device)
	switch {
	case !known:
		t.Fatalf("no plan for device %s", device)
	case plan.Free == nil:
		return -1
	}
	return *plan.Free
}

// synced is the registration of a watch that has caught up.
type synced struct {
	toolscache.ResourceEventHandlerRegistration
}

func (synced) HasSynced() bool { return true }

// listing answers a list of partitions, and lets something happen before that.
type listing struct {
	client.Reader
	items  []v1alpha1.NVMePartition
	during func()
}

func (r listing) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	r.during()
	list.(*v1alpha1.NVMePartitionList).Items = r.items
	return nil
}
