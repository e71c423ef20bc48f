package kubectl_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/explain"
)

const (
	driverNamespace = v1alpha1.DefaultNamespace
	storageNode     = "storage-a"
	consumer        = "consumer-a"
	serial          = "SN-A-1"
	gib             = int64(1) << 30
	attachmentID    = "44444444-4444-4444-8444-444444444444"
)

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}
}

// furnish makes what all tests share: one storage node with a claimed drive and
// another drive, one consumer, and DISTORT's pods.
func furnish() error {
	class := func(name, provisioner string) client.Object {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner}
	}
	renewed := metav1.NewMicroTime(time.Now().Add(time.Hour)) // no test takes so long
	claim := &v1alpha1.NVMeDeviceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: "drive-a"}, Spec: v1alpha1.NVMeDeviceClaimSpec{SerialNumber: serial},
	}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: driverNamespace}},
		class("distort-tcp", v1alpha1.DriverName), class("other", "other.example"),
		kubeNode(storageNode), kubeNode(consumer),
		claim,
		device(serial, &v1alpha1.ObjectReference{Namespace: driverNamespace, Name: "drive-a", UID: "99999999-9999-4999-8999-999999999999"}),
		device("SN-A-2", nil),
		&v1alpha1.RDMAStorageNode{
			ObjectMeta: metav1.ObjectMeta{Name: storageNode}, Spec: v1alpha1.RDMAStorageNodeSpec{NodeName: storageNode},
			Status: v1alpha1.RDMAStorageNodeStatus{Conditions: []metav1.Condition{condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAgentReady, "")}},
		},
		&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: v1alpha1.LeaseNamePrefix + storageNode},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &renewed},
		},
		component("distort-manager-0", explain.Manager, storageNode), component("distort-agent-0", explain.Agent, storageNode),
		component("distort-csi-controller-0", explain.CSIController, storageNode), component("distort-csi-node-0", explain.CSINode, consumer),
	} {
		if err := put(context.Background(), o); err != nil {
			return err
		}
	}
	return nil
}

func kubeNode(name string) client.Object {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func device(serial string, claim *v1alpha1.ObjectReference) client.Object {
	d := &v1alpha1.NVMeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: identity.DeviceName(storageNode, serial)},
		Spec:       v1alpha1.NVMeDeviceSpec{NodeName: storageNode, SerialNumber: serial, PCIAddress: "0000:3b:00.0", TotalCapacity: 8 * gib},
		Status: v1alpha1.NVMeDeviceStatus{State: v1alpha1.DeviceAvailable, ActiveBackend: v1alpha1.ActiveBackendNone, Conditions: []metav1.Condition{
			condition(v1alpha1.ConditionHardwareAvailable, metav1.ConditionTrue, v1alpha1.ReasonDiscovered, ""),
			condition(v1alpha1.ConditionMediaUsable, metav1.ConditionTrue, v1alpha1.ReasonBlank, ""),
		}},
	}
	if claim != nil {
		d.Status.State, d.Status.ClaimRef, d.Status.ActiveBackend = v1alpha1.DeviceClaimed, claim, v1alpha1.ActiveBackendKernel
	}
	return d
}

func component(name string, c explain.Component, node string) client.Object {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: name, Labels: map[string]string{
			explain.NameLabel: explain.NameValue, explain.ComponentLabel: string(c),
		}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "main", Image: "x", Args: []string{"--password", canary("flag")}, Env: []corev1.EnvVar{{Name: "API_TOKEN", Value: canary("env")}},
		}}},
		Status: corev1.PodStatus{
			Phase:             corev1.PodRunning,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", RestartCount: 1}},
		},
	}
}

// canary is a secret that must not be seen again.
func canary(place string) string { return "canary-" + place + "-7d0c1f" }

func newClaim(namespace, name, class string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
	provisioner := map[string]string{"distort-tcp": v1alpha1.DriverName, "other": "other.example"}[class]
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{"volume.kubernetes.io/storage-provisioner": provisioner}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: phase, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
}

func newPod(namespace, name, node, claim string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "x"}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}},
		},
		Status: corev1.PodStatus{Phase: phase},
	}
}

// volume is a claim with everything behind it and a pod that uses it.
type volume struct {
	claim      *corev1.PersistentVolumeClaim
	pv         *corev1.PersistentVolume
	partition  *v1alpha1.NVMePartition
	attachment *v1alpha1.NVMeVolumeAttachment
	pod        *corev1.Pod
}

// newVolume makes a volume that its pod has mounted.
func newVolume(t *testing.T, namespace, name string) *volume {
	t.Helper()
	v := &volume{}
	v.claim = newClaim(namespace, name, "distort-tcp", corev1.ClaimPending)
	create(t, v.claim)
	object := "pvc-" + string(v.claim.UID)
	v.partition = &v1alpha1.NVMePartition{
		ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: object},
		Spec: v1alpha1.NVMePartitionSpec{
			Size: gib, TargetBackend: v1alpha1.BackendKernel, Transport: v1alpha1.TransportTCP, AccessMode: v1alpha1.ReadWriteOnce,
			AccessType: v1alpha1.AccessBlock, RequestFingerprint: strings.Repeat("a", 64), NodeName: storageNode, ParentDeviceSerialNumber: serial,
			ClaimRef: &v1alpha1.ObjectReference{Namespace: driverNamespace, Name: "drive-a", UID: "99999999-9999-4999-8999-999999999999"},
		},
	}
	create(t, v.partition)
	text := handle.Handle{Kind: handle.NVMePartition, Namespace: driverNamespace, Name: object, UID: string(v.partition.UID)}.String()
	v.partition.Status = v1alpha1.NVMePartitionStatus{
		State: v1alpha1.PartitionExported, VolumeHandle: text, AllocatedCapacity: gib, NQN: "nqn.2026-02.io.distort:volume-vol-1",
		Portals: []v1alpha1.Portal{{Transport: v1alpha1.TransportTCP, Address: "10.0.0.1", Port: 4420}},
		Conditions: []metav1.Condition{
			condition(v1alpha1.ConditionPlaced, metav1.ConditionTrue, v1alpha1.ReasonPlaced, ""),
			condition(v1alpha1.ConditionProvisioned, metav1.ConditionTrue, v1alpha1.ReasonCarved, ""),
			condition(v1alpha1.ConditionExported, metav1.ConditionTrue, v1alpha1.ReasonExported, ""),
		},
	}
	update(t, v.partition)
	v.pv = &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: object},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: "distort-tcp", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: name, UID: v.claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: v1alpha1.DriverName, VolumeHandle: text, VolumeAttributes: map[string]string{"mkfs-options": "secret=" + canary("attribute")},
			}},
		},
	}
	create(t, v.pv)
	v.claim.Spec.VolumeName = object
	if err := server.client.Update(t.Context(), v.claim); err != nil {
		t.Fatal(err)
	}
	v.claim.Status.Phase = corev1.ClaimBound
	update(t, v.claim)
	v.attach(t, text)
	v.pod = newPod(namespace, "app-"+name, consumer, name, corev1.PodRunning)
	create(t, v.pod)
	return v
}

func (v *volume) attach(t *testing.T, text string) {
	t.Helper()
	v.attachment = &v1alpha1.NVMeVolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: identity.AttachmentName(string(v.partition.UID))},
		Spec: v1alpha1.NVMeVolumeAttachmentSpec{
			VolumeRef:  v1alpha1.VolumeReference{Kind: v1alpha1.KindNVMePartition, Namespace: driverNamespace, Name: v.partition.Name, UID: v.partition.UID},
			TargetNode: storageNode, NodeID: consumer, HostNQN: identity.HostNQN(consumer), AttachmentID: attachmentID,
		},
		Status: v1alpha1.NVMeVolumeAttachmentStatus{
			ObservedAttachmentID: attachmentID,
			Conditions:           []metav1.Condition{condition(v1alpha1.ConditionAccessReady, metav1.ConditionTrue, v1alpha1.ReasonGranted, "")},
		},
	}
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("csi-%x", sha256.Sum256([]byte(text+v1alpha1.DriverName+consumer)))},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: v1alpha1.DriverName, NodeName: consumer, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &v.pv.Name}},
	}
	create(t, v.attachment, va)
	va.Status.Attached = true
	update(t, va)
}

// update writes the status of an object.
func update(t *testing.T, o client.Object) {
	t.Helper()
	if err := server.client.Status().Update(t.Context(), o); err != nil {
		t.Fatalf("write the status of %s: %v", o.GetName(), err)
	}
}

// warn makes an event as Kubernetes' components do.
func warn(t *testing.T, kind string, about client.Object, reason, message string) {
	t.Helper()
	first := metav1.NewTime(time.Now().Add(-30 * time.Second))
	create(t, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: about.GetNamespace(), GenerateName: "e-"},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: about.GetNamespace(), Name: about.GetName(), UID: about.GetUID()},
		Type:           corev1.EventTypeWarning, Reason: reason, Message: message, FirstTimestamp: first, LastTimestamp: first, Count: 1,
	})
}
