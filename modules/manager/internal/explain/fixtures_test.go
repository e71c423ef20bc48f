package explain_test

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/explain"
)

const (
	claimUID     = types.UID("11111111-1111-4111-8111-111111111111")
	partitionUID = types.UID("22222222-2222-4222-8222-222222222222")
	podUID       = types.UID("33333333-3333-4333-8333-333333333333")
	volumeName   = "pvc-" + string(claimUID)
	attachmentID = "44444444-4444-4444-8444-444444444444"
	storageNode  = "storage-a"
	consumer     = "consumer-a"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func condition(kind string, status metav1.ConditionStatus, reason, message string, age time.Duration) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: ago(age)}
}

func yes(kind, reason string) metav1.Condition {
	return condition(kind, metav1.ConditionTrue, reason, "", time.Hour)
}

// set replaces a condition.
func set(all *[]metav1.Condition, c metav1.Condition) {
	unset(all, c.Type)
	*all = append(*all, c)
}

func unset(all *[]metav1.Condition, kinds ...string) {
	for _, kind := range kinds {
		for i := range *all {
			if (*all)[i].Type == kind {
				*all = append((*all)[:i], (*all)[i+1:]...)
				break
			}
		}
	}
}

// well is a volume that a running pod has mounted.
func well() *explain.Snapshot {
	class, handleText := "distort-tcp", handle.Handle{Kind: handle.NVMePartition, Namespace: "distort-system", Name: volumeName, UID: string(partitionUID)}.String()
	renewed := metav1.NewMicroTime(now.Add(-5 * time.Second))
	return &explain.Snapshot{
		Now: now, Namespace: "distort-system", Subject: explain.Subject{Kind: explain.SubjectClaim, Namespace: "demo", Name: "data"},
		Claim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "data", UID: claimUID, CreationTimestamp: ago(time.Hour)},
			Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeName: volumeName},
			Status: corev1.PersistentVolumeClaimStatus{
				Phase: corev1.ClaimBound, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
		Class: &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: v1alpha1.DriverName},
		Volume: &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: volumeName, UID: "55555555-5555-4555-8555-555555555555"},
			Spec: corev1.PersistentVolumeSpec{
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: v1alpha1.DriverName, VolumeHandle: handleText},
				},
			},
		},
		Partition: &v1alpha1.NVMePartition{
			ObjectMeta: metav1.ObjectMeta{Namespace: "distort-system", Name: volumeName, UID: partitionUID, CreationTimestamp: ago(time.Hour)},
			Spec: v1alpha1.NVMePartitionSpec{
				Size: 1 << 30, NodeName: storageNode, ParentDeviceSerialNumber: "SN-A-1", AccessMode: v1alpha1.ReadWriteOnce,
			},
			Status: v1alpha1.NVMePartitionStatus{
				AllocatedCapacity: 1 << 30, NQN: "nqn.2026-02.io.distort:volume-vol-1",
				Portals: []v1alpha1.Portal{{Transport: v1alpha1.TransportTCP, Address: "fd00::1", Port: 4420}},
				Conditions: []metav1.Condition{
					yes(v1alpha1.ConditionPlaced, v1alpha1.ReasonPlaced), yes(v1alpha1.ConditionClaimAuthorized, v1alpha1.ReasonClaimMatches),
					yes(v1alpha1.ConditionProvisioned, v1alpha1.ReasonCarved), yes(v1alpha1.ConditionExported, v1alpha1.ReasonExported),
				},
			},
		},
		Device: &v1alpha1.NVMeDevice{
			ObjectMeta: metav1.ObjectMeta{Name: "storage-a-0"},
			Status: v1alpha1.NVMeDeviceStatus{Conditions: []metav1.Condition{
				yes(v1alpha1.ConditionHardwareAvailable, v1alpha1.ReasonDiscovered), yes(v1alpha1.ConditionMediaUsable, v1alpha1.ReasonOwnLabel),
			}},
		},
		Target: &v1alpha1.RDMAStorageNode{
			ObjectMeta: metav1.ObjectMeta{Name: storageNode},
			Status:     v1alpha1.RDMAStorageNodeStatus{Conditions: []metav1.Condition{yes(v1alpha1.ConditionReady, v1alpha1.ReasonAgentReady)}},
		},
		Lease: &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "distort-system", Name: v1alpha1.LeaseNamePrefix + storageNode},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &renewed},
		},
		Attachments: []v1alpha1.NVMeVolumeAttachment{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "distort-system", Name: "att-1", CreationTimestamp: ago(50 * time.Minute)},
			Spec:       v1alpha1.NVMeVolumeAttachmentSpec{TargetNode: storageNode, NodeID: consumer, AttachmentID: attachmentID},
			Status: v1alpha1.NVMeVolumeAttachmentStatus{
				ObservedAttachmentID: attachmentID, Conditions: []metav1.Condition{yes(v1alpha1.ConditionAccessReady, v1alpha1.ReasonGranted)},
			},
		}},
		VolumeAttachments: []storagev1.VolumeAttachment{{
			ObjectMeta: metav1.ObjectMeta{Name: "csi-1", CreationTimestamp: ago(50 * time.Minute)},
			Spec:       storagev1.VolumeAttachmentSpec{NodeName: consumer},
			Status:     storagev1.VolumeAttachmentStatus{Attached: true},
		}},
		Pods: []corev1.Pod{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app", UID: podUID, CreationTimestamp: ago(50 * time.Minute)},
			Spec: corev1.PodSpec{NodeName: consumer, Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}},
		Nodes: []corev1.Node{kubeNode(storageNode, corev1.ConditionTrue), kubeNode(consumer, corev1.ConditionTrue)},
		Components: []corev1.Pod{
			component("distort-manager-1", explain.Manager, "control"), component("distort-csi-controller-1", explain.CSIController, "control"),
			component("distort-agent-1", explain.Agent, storageNode), component("distort-csi-node-1", explain.CSINode, consumer),
		},
	}
}

func kubeNode(name string, ready corev1.ConditionStatus) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: ready, Reason: "KubeletSays", Message: "kubelet stopped posting", LastTransitionTime: ago(7 * time.Minute),
		}}},
	}
}

func component(name string, c explain.Component, node string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "distort-system", Name: name, Labels: map[string]string{explain.ComponentLabel: string(c)}},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// pending makes the claim one that is not bound, with nothing behind it.
func pending(s *explain.Snapshot, age time.Duration) {
	s.Claim.Status.Phase, s.Claim.Spec.VolumeName, s.Claim.CreationTimestamp = corev1.ClaimPending, "", ago(age)
	s.Volume, s.Partition, s.Device, s.Target, s.Lease = nil, nil, nil, nil, nil
	s.Attachments, s.VolumeAttachments, s.Pods = nil, nil, nil
}

// unplaced makes the volume one that is asked for and not placed.
func unplaced(s *explain.Snapshot, age time.Duration) {
	p := s.Partition
	pending(s, age)
	p.CreationTimestamp, p.Status = ago(age), v1alpha1.NVMePartitionStatus{}
	p.Spec.NodeName, p.Spec.ParentDeviceSerialNumber = "", ""
	s.Partition = p
}

// starting makes the pod one whose volumes are not mounted.
func starting(s *explain.Snapshot, age time.Duration) *corev1.Pod {
	pod := &s.Pods[0]
	pod.CreationTimestamp = ago(age)
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: ago(age)},
	}}
	set(&s.Attachments[0].Status.Conditions, condition(v1alpha1.ConditionAccessReady, metav1.ConditionTrue, v1alpha1.ReasonGranted, "", age))
	return pod
}

// warn adds a warning about an object, first seen some time ago.
func warn(s *explain.Snapshot, kind, name string, uid types.UID, reason, message string, age time.Duration) {
	s.Events = append(s.Events, corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "demo", Name: name, UID: uid},
		Type:           corev1.EventTypeWarning, Reason: reason, Message: message, FirstTimestamp: ago(age), LastTimestamp: ago(age / 2),
	})
}

func provisionFailed(s *explain.Snapshot, message string) {
	warn(s, "PersistentVolumeClaim", "data", claimUID, "ProvisioningFailed",
		`failed to provision volume with StorageClass "distort-tcp": `+message, 2*time.Minute)
}

func mountFailed(s *explain.Snapshot, message string) {
	starting(s, 3*time.Minute)
	warn(s, "Pod", "app", podUID, "FailedMount", message, 2*time.Minute)
}

func stageFailed(s *explain.Snapshot, code, message string) {
	mountFailed(s, `MountVolume.MountDevice failed for volume "`+volumeName+`" : rpc error: code = `+code+` desc = `+message)
}
