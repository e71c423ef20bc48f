package overview_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/gather"
	"github.com/distort-io/distort/modules/manager/internal/overview"
)

const gib = int64(1) << 30

func device(node, serial string, claimed bool) v1alpha1.NVMeDevice {
	d := v1alpha1.NVMeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + serial},
		Spec:       v1alpha1.NVMeDeviceSpec{NodeName: node, SerialNumber: serial, TotalCapacity: 8 * gib},
		Status: v1alpha1.NVMeDeviceStatus{State: v1alpha1.DeviceAvailable, Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionHardwareAvailable, Status: metav1.ConditionTrue}, {Type: v1alpha1.ConditionMediaUsable, Status: metav1.ConditionTrue},
		}},
	}
	if claimed {
		d.Status.State, d.Status.ClaimRef = v1alpha1.DeviceClaimed, &v1alpha1.ObjectReference{Namespace: "d", Name: serial}
	}
	return d
}

func partition(name, node, serial string, size, allocated int64) v1alpha1.NVMePartition {
	return v1alpha1.NVMePartition{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID(name)},
		Spec:       v1alpha1.NVMePartitionSpec{NodeName: node, ParentDeviceSerialNumber: serial, Size: size},
		Status:     v1alpha1.NVMePartitionStatus{AllocatedCapacity: allocated, VolumeHandle: name},
	}
}

func ready(name string, status metav1.ConditionStatus, reason string) v1alpha1.RDMAStorageNode {
	return v1alpha1.RDMAStorageNode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     v1alpha1.RDMAStorageNodeStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: reason}}},
	}
}

func TestBuild(t *testing.T) {
	off := false
	deleted := metav1.Now()
	terminating := partition("old", "a", "S1", gib, gib)
	terminating.DeletionTimestamp = &deleted
	foreign := device("b", "S3", false)
	foreign.Status.Conditions[1] = metav1.Condition{Type: v1alpha1.ConditionMediaUsable, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonForeignSignature}
	cordoned := device("a", "S2", true)
	cordoned.Annotations = map[string]string{v1alpha1.CordonedAnnotation: "true"}
	cordoned.Status.Reservations = []v1alpha1.Reservation{
		{ObjectReference: v1alpha1.ObjectReference{UID: "odd"}, Size: 4 << 20}, {ObjectReference: v1alpha1.ObjectReference{UID: "unplaced"}, Size: gib},
	}
	full, largest := device("a", "S1", true), 3*gib
	full.Status.LargestFreeExtent, foreign.Status.LargestFreeExtent = largest, 8*gib
	i := &gather.Inventory{
		Targets: []v1alpha1.RDMAStorageNode{ready("b", metav1.ConditionFalse, v1alpha1.ReasonHeartbeatExpired), ready("a", metav1.ConditionTrue, ""), ready("c", metav1.ConditionTrue, "")},
		Owners: []v1alpha1.StorageNode{
			{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: v1alpha1.StorageNodeSpec{Enabled: &off, NetworkDomain: "east"}},
			{
				ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{v1alpha1.CordonedAnnotation: "false"}},
				Status:     v1alpha1.StorageNodeStatus{Pools: []v1alpha1.PoolStatus{{GUID: "7", Name: "tank", FreeBytes: gib, Ready: true}}},
			},
		},
		Devices: []v1alpha1.NVMeDevice{cordoned, full, foreign},
		Partitions: []v1alpha1.NVMePartition{
			partition("pvc-1", "a", "S1", gib, 2*gib), terminating, partition("unplaced", "", "", gib, 0), partition("odd", "a", "S2", 1, 0),
		},
		Volumes: []corev1.PersistentVolume{{Spec: corev1.PersistentVolumeSpec{
			ClaimRef:               &corev1.ObjectReference{Namespace: "demo", Name: "data"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: v1alpha1.DriverName, VolumeHandle: "pvc-1"}},
		}}},
	}
	want := overview.Tree{
		Space: overview.Space{Total: 16 * gib, Reserved: 4*gib + 4<<20, Free: 12*gib - 4<<20, Largest: &largest}, Unclaimed: 8 * gib,
		Nodes: []overview.Node{
			{
				Name: "a", State: "Ready", Space: overview.Space{Total: 16 * gib, Reserved: 4*gib + 4<<20, Free: 12*gib - 4<<20, Largest: &largest},
				Drives: []overview.Drive{
					{
						Serial: "S1", Device: "a-S1", State: "Claimed", Claim: "d/S1", Space: overview.Space{Total: 8 * gib, Reserved: 3 * gib, Free: 5 * gib, Largest: &largest},
						// What is being deleted counts, and so does what was carved beyond what was asked.
						Volumes: []overview.Volume{{Partition: "d/old", Bytes: gib, Deleting: true}, {Partition: "d/pvc-1", Claim: "demo/data", Bytes: 2 * gib}},
					},
					{
						Serial: "S2", Device: "a-S2", State: "Claimed", Claim: "d/S2", Cordoned: true,
						Space: overview.Space{Total: 8 * gib, Reserved: gib + 4<<20, Free: 7*gib - 4<<20}, Volumes: []overview.Volume{{Partition: "d/odd", Bytes: 4 << 20}},
					},
				},
			},
			{Name: "b", State: v1alpha1.ReasonHeartbeatExpired, Drives: []overview.Drive{
				{Serial: "S3", Device: "b-S3", State: v1alpha1.ReasonForeignSignature, Space: overview.Space{Total: 8 * gib}},
			}},
			{Name: "c", State: v1alpha1.ReasonDisabled, Domain: "east"},
			{Name: "p", State: "no agent", Pools: []overview.Pool{{Name: "tank", GUID: "7", Ready: true, Free: gib}}},
		},
	}
	if diff := cmp.Diff(want, overview.Build(i), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("tree differs (-want +got):\n%s", diff)
	}
}
