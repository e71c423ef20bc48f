package claim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/placement"
)

func aDevice(name, node string, changes ...func(*v1alpha1.NVMeDevice)) *v1alpha1.NVMeDevice {
	d := &v1alpha1.NVMeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.NVMeDeviceSpec{NodeName: node, SerialNumber: "S1"},
		Status: v1alpha1.NVMeDeviceStatus{Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionHardwareAvailable, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDiscovered},
			{Type: v1alpha1.ConditionMediaUsable, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonBlank},
		}},
	}
	for _, change := range changes {
		change(d)
	}
	return d
}

func lost(d *v1alpha1.NVMeDevice) {
	d.Status.Conditions[0].Status, d.Status.Conditions[0].Reason = metav1.ConditionFalse, v1alpha1.ReasonNotFound
}

func foreign(d *v1alpha1.NVMeDevice) {
	c := &d.Status.Conditions[1]
	c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonForeignSignature, "zfs_member"
}

func reserved(d *v1alpha1.NVMeDevice) {
	d.Status.Reservations = []v1alpha1.Reservation{{ObjectReference: v1alpha1.ObjectReference{Namespace: "ns", Name: "p", UID: "p"}}}
}

func ownedBy(name string, uid types.UID) func(*v1alpha1.NVMeDevice) {
	return func(d *v1alpha1.NVMeDevice) {
		d.Status.ClaimRef = &v1alpha1.ObjectReference{Namespace: "default", Name: name, UID: uid}
	}
}

func TestJudge(t *testing.T) {
	on := func(node string, claim types.UID) placement.Holder {
		return placement.Holder{Partition: client.ObjectKey{Namespace: "ns", Name: "p"}, Node: node, Claim: claim}
	}
	cases := map[string]struct {
		devices []*v1alpha1.NVMeDevice
		holders []placement.Holder
		device  string
		leaves  []string
		reason  string
		says    string
	}{
		"no drive":    {reason: v1alpha1.ReasonDeviceNotFound, says: `"S1"`},
		"one drive":   {devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a")}, device: "d1", reason: v1alpha1.ReasonBound, says: "node a"},
		"two drives":  {devices: []*v1alpha1.NVMeDevice{aDevice("d1", "b"), aDevice("d2", "a")}, reason: v1alpha1.ReasonDuplicateDevices, says: "nodes a and b"},
		"a moved one": {devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a", lost), aDevice("d2", "b")}, device: "d2", reason: v1alpha1.ReasonBound},
		"a lost one":  {devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a", lost)}, reason: v1alpha1.ReasonDriveUnavailable, says: "not in node a any more"},
		"somebody's data": {devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a", foreign)},
			reason: v1alpha1.ReasonDriveNotBlank, says: "zfs_member"},
		"another's drive": {devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a", ownedBy("other", "2"))},
			reason: v1alpha1.ReasonClaimedByAnother, says: "default/other"},
		"a drive of a former life of this claim": {devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a", ownedBy("c", "0"))},
			reason: v1alpha1.ReasonClaimedByAnother, says: "is gone but has partitions"},
		"its own drive": {devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a", ownedBy("c", "1"))}, device: "d1", reason: v1alpha1.ReasonBound},
		"its own drive, though another appeared with the same serial number": {
			devices: []*v1alpha1.NVMeDevice{aDevice("d0", "b"), aDevice("d1", "a", ownedBy("c", "1"))}, device: "d1", reason: v1alpha1.ReasonBound,
			says: "2 drives have its serial number, in nodes a and b: nothing new is placed on them"},
		"its own drive, though it is gone for now": {
			devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a", ownedBy("c", "1"), lost)}, device: "d1", reason: v1alpha1.ReasonBound},
		"its own drive, now with its own label or worse": {
			devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a", ownedBy("c", "1"), foreign)}, device: "d1", reason: v1alpha1.ReasonBound},
		"its own drive, empty, in another node": {
			devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a", ownedBy("c", "1"), lost), aDevice("d2", "b")},
			device:  "d2", leaves: []string{"d1"}, reason: v1alpha1.ReasonBound, says: "node b"},
		"its own drive, with a partition, in another node": {
			devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a", ownedBy("c", "1"), lost), aDevice("d2", "b")}, holders: []placement.Holder{on("a", "1")},
			device: "d1", reason: v1alpha1.ReasonDriveMoved, says: "is in node b now, and cannot be used there while it holds partitions of node a: ns/p"},
		"its own drive, reserved for a partition, in another node": {
			devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a", ownedBy("c", "1"), lost, reserved), aDevice("d2", "b")},
			device:  "d1", reason: v1alpha1.ReasonDriveMoved, says: "is in node b now"},
		"its own drive, in another node with somebody's data": {
			devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a", ownedBy("c", "1"), lost), aDevice("d2", "b", foreign)},
			device:  "d1", reason: v1alpha1.ReasonDriveMoved, says: "zfs_member"},
		"its own drive, in two other nodes": {
			devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a", ownedBy("c", "1"), lost), aDevice("d2", "b"), aDevice("d3", "c")},
			device:  "d1", reason: v1alpha1.ReasonDriveMoved, says: "2 drives have serial number"},
		"two drives of its own: the one that is there": {
			devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a", ownedBy("c", "1"), lost), aDevice("d2", "b", ownedBy("c", "1"))},
			device:  "d2", leaves: []string{"d1"}, reason: v1alpha1.ReasonBound},
		"two drives of its own: the one with partitions": {
			devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a", ownedBy("c", "1"), lost), aDevice("d2", "b", ownedBy("c", "1"))},
			holders: []placement.Holder{on("a", "1")}, device: "d1", leaves: []string{"d2"}, reason: v1alpha1.ReasonBound},
		"two drives of its own, both with partitions": {
			devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a", ownedBy("c", "1"), reserved), aDevice("d2", "b", ownedBy("c", "1"), reserved)},
			device:  "d1", reason: v1alpha1.ReasonBound},
		"a drive with partitions of another claim": {
			devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a")}, holders: []placement.Holder{on("a", "0")},
			reason: v1alpha1.ReasonDriveNotEmpty, says: "ns/p"},
		"a drive with partitions of another node": {
			devices: []*v1alpha1.NVMeDevice{aDevice("d2", "b")}, holders: []placement.Holder{on("a", "1")},
			reason: v1alpha1.ReasonDriveNotEmpty, says: "ns/p"},
		"a drive whose object was made anew, with its partitions": {
			devices: []*v1alpha1.NVMeDevice{aDevice("d1", "a")}, holders: []placement.Holder{on("a", "1")},
			device: "d1", reason: v1alpha1.ReasonBound},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := &v1alpha1.NVMeDeviceClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "1", Generation: 3},
				Spec:       v1alpha1.NVMeDeviceClaimSpec{SerialNumber: "S1"},
			}
			got := judge(c, tc.devices, map[types.UID]string{"1": "default/c", "2": "default/other"}, tc.holders)
			var leaves []string
			for _, d := range got.leaves {
				leaves = append(leaves, d.Name)
			}
			if !slices.Equal(leaves, tc.leaves) {
				t.Errorf("leaves %v, want %v", leaves, tc.leaves)
			}
			device := ""
			if got.device != nil {
				device = got.device.Name
			}
			if device != tc.device || got.reason != tc.reason || !strings.Contains(got.message, tc.says) {
				t.Errorf("got device %q, %s %q, want %q, %s with %q", device, got.reason, got.message, tc.device, tc.reason, tc.says)
			}
			status := statusOf(c, got)
			if status.Active != (tc.device != "") || status.MatchedDevice != tc.device || status.Conditions[0].ObservedGeneration != 3 {
				t.Errorf("status %+v does not follow", status)
			}
		})
	}
}

func TestSeniority(t *testing.T) {
	at := func(second int, namespace, name string) *v1alpha1.NVMeDeviceClaim {
		return &v1alpha1.NVMeDeviceClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(time.Unix(int64(second), 0)),
		}}
	}
	order := []*v1alpha1.NVMeDeviceClaim{at(1, "z", "z"), at(2, "a", "a"), at(2, "a", "b"), at(2, "b", "a")}
	for i, first := range order {
		for j, second := range order {
			if got := seniority(first, second); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("seniority of %d and %d is %d", i, j, got)
			}
		}
	}
}

func TestStateOf(t *testing.T) {
	cases := map[string]struct {
		device *v1alpha1.NVMeDevice
		want   v1alpha1.DeviceState
	}{
		"blank":             {aDevice("d", "a"), v1alpha1.DeviceAvailable},
		"lost":              {aDevice("d", "a", lost), v1alpha1.DeviceUnavailable},
		"foreign":           {aDevice("d", "a", foreign), v1alpha1.DeviceUnavailable},
		"claimed":           {aDevice("d", "a", ownedBy("c", "1")), v1alpha1.DeviceClaimed},
		"claimed, but lost": {aDevice("d", "a", ownedBy("c", "1"), lost), v1alpha1.DeviceClaimed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := stateOf(tc.device); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestRemainingIsBounded(t *testing.T) {
	var keys []client.ObjectKey
	for i := range 12 {
		keys = append(keys, client.ObjectKey{Namespace: "n", Name: fmt.Sprintf("p%d", i)})
	}
	if got := remaining(keys[:2]); got != "being deleted; waits for 2 partitions: n/p0, n/p1" {
		t.Errorf("got %q", got)
	}
	if got := remaining(keys); !strings.HasSuffix(got, "n/p9, and 2 more") {
		t.Errorf("got %q, want ten names and the count of the rest", got)
	}
}
