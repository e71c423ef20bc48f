package whatif_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/gather"
	"github.com/distort-io/distort/modules/manager/internal/whatif"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const gib = int64(1) << 30

// world has a volume on each of two storage nodes. Both are used by pods on node
// consumer; "lone" has no controller, "web" is of a Deployment.
func world() *gather.Inventory {
	i := &gather.Inventory{
		Targets: []v1alpha1.RDMAStorageNode{{ObjectMeta: metav1.ObjectMeta{Name: "storage-a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "storage-b"}}},
		Devices: []v1alpha1.NVMeDevice{
			{ObjectMeta: metav1.ObjectMeta{Name: "dev-a"}, Spec: v1alpha1.NVMeDeviceSpec{NodeName: "storage-a", SerialNumber: "SN-A"}, Status: v1alpha1.NVMeDeviceStatus{
				ClaimRef: &v1alpha1.ObjectReference{Namespace: "d", Name: "drive-a"},
			}},
			{ObjectMeta: metav1.ObjectMeta{Name: "dev-c"}, Spec: v1alpha1.NVMeDeviceSpec{NodeName: "storage-a", SerialNumber: "SN-C"}, Status: v1alpha1.NVMeDeviceStatus{
				ClaimRef: &v1alpha1.ObjectReference{Namespace: "d", Name: "drive-c"},
			}},
		},
		Nodes: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "consumer"}}, {ObjectMeta: metav1.ObjectMeta{Name: "idle"}}},
	}
	for _, v := range []struct{ name, node, serial, pod string }{{"one", "storage-a", "SN-A", "lone"}, {"two", "storage-b", "SN-B", "web"}} {
		i.Partitions = append(i.Partitions, v1alpha1.NVMePartition{
			ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "pvc-" + v.name, UID: types.UID(v.name)},
			Spec:       v1alpha1.NVMePartitionSpec{NodeName: v.node, ParentDeviceSerialNumber: v.serial, Size: gib, TargetBackend: v1alpha1.BackendKernel},
			Status: v1alpha1.NVMePartitionStatus{VolumeHandle: v.name, Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionExported, Status: metav1.ConditionTrue},
			}},
		})
		i.Volumes = append(i.Volumes, corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
			ClaimRef:               &corev1.ObjectReference{Namespace: "demo", Name: v.name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: v1alpha1.DriverName, VolumeHandle: v.name}},
		}})
		i.Attachments = append(i.Attachments, v1alpha1.NVMeVolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "att-" + v.name},
			Spec:       v1alpha1.NVMeVolumeAttachmentSpec{TargetNode: v.node, NodeID: "consumer", VolumeRef: v1alpha1.VolumeReference{UID: types.UID(v.name)}},
		})
		i.Pods = append(i.Pods, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: v.pod, Labels: map[string]string{"app": v.pod}},
			Spec: corev1.PodSpec{NodeName: "consumer", Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.name},
			}}}},
		})
	}
	yes := true
	i.Pods[1].OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Controller: &yes}}
	return i
}

func heard(i *gather.Inventory, node string, ago time.Duration) {
	renewed := metav1.NewMicroTime(now.Add(-ago))
	i.Leases = append(i.Leases, coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseNamePrefix + node}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed},
	})
}

func drain(node string) func(*gather.Inventory) (*whatif.Plan, error) {
	return func(i *gather.Inventory) (*whatif.Plan, error) { return whatif.DrainNode(i, now, node) }
}

func pull(serial string) func(*gather.Inventory) (*whatif.Plan, error) {
	return func(i *gather.Inventory) (*whatif.Plan, error) { return whatif.RemoveDevice(i, serial) }
}

func upgrade(node string) func(*gather.Inventory) (*whatif.Plan, error) {
	return func(i *gather.Inventory) (*whatif.Plan, error) { return whatif.UpgradeAgent(i, now, node) }
}

func TestPlans(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*gather.Inventory)
		ask    func(*gather.Inventory) (*whatif.Plan, error)
		// volumes are "role claim: outage", refusals "object: message"; each is a part.
		volumes, refusals, notes []string
	}{
		"a storage node is drained": {
			func(*gather.Inventory) {}, drain("storage-a"),
			[]string{"stored demo/one [demo/lone]: I/O waits while the node is down, and goes on"}, nil, []string{"draining moves no data"},
		},
		"a volume with a limit is stored there": {
			func(i *gather.Inventory) {
				i.Volumes[0].Spec.CSI.VolumeAttributes = map[string]string{"ctrl-loss-tmo": "30"}
			}, drain("storage-a"),
			[]string{"stored demo/one [demo/lone]: I/O waits while the node is down, and fails after 30 s"}, nil, []string{"draining moves no data"},
		},
		"a consumer is drained": {
			func(i *gather.Inventory) { heard(i, "storage-a", time.Second); heard(i, "storage-b", time.Second) }, drain("consumer"),
			[]string{"used demo/one [demo/lone]: stops", "used demo/two [demo/web]: stops"}, []string{"Pod demo/lone: has no controller"}, nil,
		},
		"a consumer of a silent agent is drained": {
			func(i *gather.Inventory) { heard(i, "storage-b", time.Minute) }, drain("consumer"),
			[]string{"used demo/one", "used demo/two"},
			[]string{"NVMeVolumeAttachment d/att-two: cannot be revoked: the agent on storage-b is silent since 2026-11-30T11:59:00Z", "Pod demo/lone: has no controller"}, nil,
		},
		"a budget forbids it": {
			func(i *gather.Inventory) {
				for _, app := range []string{"web", "other"} {
					i.Budgets = append(i.Budgets, policyv1.PodDisruptionBudget{
						ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: app},
						Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
					})
				}
			}, drain("consumer"),
			[]string{"used demo/one", "used demo/two"}, []string{"Pod demo/lone", "PodDisruptionBudget demo/web: allows no eviction of pod web"}, nil,
		},
		"an emptyDir and a DaemonSet": {
			func(i *gather.Inventory) {
				i.Pods[1].OwnerReferences[0].Kind = "DaemonSet"
				i.Pods[1].Spec.Volumes = append(i.Pods[1].Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
			}, drain("consumer"),
			[]string{"used demo/one", "used demo/two"}, []string{"Pod demo/lone", "Pod demo/web: is of a DaemonSet", "Pod demo/web: has an emptyDir"}, nil,
		},
		"a node without volumes is drained": {func(*gather.Inventory) {}, drain("idle"), nil, nil, nil},

		"a full drive is pulled": {
			func(*gather.Inventory) {}, pull("SN-A"),
			[]string{"stored demo/one [demo/lone]: for good"}, []string{"NVMeDeviceClaim d/drive-a: is not released while partitions are on the drive: pvc-one"}, nil,
		},
		"an empty drive is pulled": {func(*gather.Inventory) {}, pull("SN-C"), nil, nil, []string{"delete NVMeDeviceClaim d/drive-c first"}},
		"a drive without a claim is pulled": {
			func(i *gather.Inventory) { i.Devices[1].Status.ClaimRef = nil }, pull("SN-C"), nil, nil, []string{"dev-c is not claimed"},
		},
		"a drive that is not there is pulled": {
			func(i *gather.Inventory) {
				i.Devices[1].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionHardwareAvailable, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotFound}}
			}, pull("SN-C"), nil, nil, []string{"delete NVMeDeviceClaim", "is not in node storage-a now"},
		},

		"an agent is upgraded": {
			func(*gather.Inventory) {}, upgrade("storage-a"),
			[]string{"stored demo/one [demo/lone]: none"}, nil, []string{"until the new agent is ready", "after 45 s"},
		},
		"an agent with SPDK is upgraded": {
			func(i *gather.Inventory) { i.Partitions[0].Spec.TargetBackend = v1alpha1.BackendSPDK }, upgrade("storage-a"),
			[]string{"stored demo/one [demo/lone]: I/O waits while the SPDK target starts"}, nil, []string{"until", "after"},
		},
		"an agent with work to do is upgraded": {
			func(i *gather.Inventory) {
				deleted := metav1.NewTime(now)
				i.Attachments[0].DeletionTimestamp = &deleted
				i.Partitions[0].Status.Conditions = nil
				i.Partitions = append(i.Partitions, v1alpha1.NVMePartition{
					ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "old", DeletionTimestamp: &deleted}, Spec: v1alpha1.NVMePartitionSpec{NodeName: "storage-a"},
				})
			}, upgrade("storage-a"),
			[]string{"stored  []: none", "stored demo/one"},
			[]string{"NVMePartition d/old: is being deleted", "NVMePartition d/pvc-one: is not exported", "NVMeVolumeAttachment d/att-one: node consumer is being fenced"}, []string{"until", "after"},
		},
		"a silent agent is upgraded": {
			func(i *gather.Inventory) { heard(i, "storage-a", time.Hour) }, upgrade("storage-a"),
			[]string{"stored demo/one"}, nil, []string{"is silent already", "until", "after"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := world()
			tc.change(i)
			plan, err := tc.ask(i)
			if err != nil {
				t.Fatal(err)
			}
			var volumes, refusals []string
			for _, v := range plan.Volumes {
				volumes = append(volumes, string(v.Role)+" "+v.Claim+" ["+strings.Join(v.Pods, " ")+"]: "+v.Outage)
			}
			for _, r := range plan.Refusals {
				refusals = append(refusals, r.Object+": "+r.Message)
			}
			say(t, "volumes", volumes, tc.volumes)
			say(t, "refusals", refusals, tc.refusals)
			say(t, "notes", plan.Notes, tc.notes)
		})
	}
}

// say checks that there are as many texts as wanted, and each has its part.
func say(t *testing.T, what string, got, want []string) {
	t.Helper()
	ok := len(got) == len(want)
	for _, part := range want {
		ok = ok && slices.ContainsFunc(got, func(text string) bool { return strings.Contains(text, part) })
	}
	if !ok {
		t.Errorf("%s are %q, want %q", what, got, want)
	}
}

func TestPlansNeedTheirSubject(t *testing.T) {
	for name, ask := range map[string]func(*gather.Inventory) (*whatif.Plan, error){
		"node": drain("nowhere"), "drive": pull("SN-X"), "storage node": upgrade("consumer"),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ask(world()); !errors.Is(err, whatif.ErrNotFound) {
				t.Errorf("got %v, want %v", err, whatif.ErrNotFound)
			}
		})
	}
}
