package chart

import (
	"context"
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// impersonate is a client that is to the API server what a pod of the component on
// that node is; with an empty node, what a token is that no pod is bound to.
func impersonate(component, node string) (client.Client, error) {
	config := rest.CopyConfig(here.config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: fmt.Sprintf("system:serviceaccount:%s:distort-%s", namespace, component),
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	if node != "" {
		config.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	}
	return client.New(config, client.Options{Scheme: scheme(), Mapper: here.admin.RESTMapper()})
}

// on is impersonate for tests.
func on(t *testing.T, component, node string) client.Client {
	t.Helper()
	c, err := impersonate(component, node)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// made creates an object as administrator, and removes it when the test ends.
func made[T client.Object](t *testing.T, o T) T {
	t.Helper()
	if err := here.admin.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { discard(t, o) })
	return o
}

// discard removes what a test made or had made.
func discard(t *testing.T, o client.Object) {
	ctx := context.WithoutCancel(t.Context())
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := here.admin.Patch(ctx, o, patch); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
	if err := here.admin.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

const uid = "7b1c36c5-3a4f-4a0b-9d5e-2f6c1d7e8a90"

func device(node, name string) *v1alpha1.NVMeDevice {
	return &v1alpha1.NVMeDevice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NVMeDeviceSpec{
		NodeName: node, PCIAddress: "0000:3b:00.0", SerialNumber: "S4EMNX0R123456", TotalCapacity: 1 << 30,
	}}
}

func storageNode(node string) *v1alpha1.RDMAStorageNode {
	return &v1alpha1.RDMAStorageNode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: v1alpha1.RDMAStorageNodeSpec{NodeName: node}}
}

// partitionOn is a partition that is placed on a node; with an empty one, it waits.
func partitionOn(node, name string) *v1alpha1.NVMePartition {
	p := &v1alpha1.NVMePartition{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.NVMePartitionSpec{
		Size: 64 << 20, TargetBackend: v1alpha1.BackendKernel, VolumeManager: v1alpha1.VolumeManagerPartition, Transport: v1alpha1.TransportTCP,
		AccessMode: v1alpha1.ReadWriteOnce, AccessType: v1alpha1.AccessMount, Filesystem: v1alpha1.Ext4, RequestFingerprint: strings.Repeat("a", 64),
	}}
	if node != "" {
		place(p, node)
	}
	return p
}

func place(p *v1alpha1.NVMePartition, node string) {
	p.Spec.NodeName, p.Spec.ParentDeviceSerialNumber = node, "S4EMNX0R123456"
	p.Spec.ClaimRef = &v1alpha1.ObjectReference{Namespace: namespace, Name: "claim", UID: uid}
}

// attachmentOf admits host at the target of node.
func attachmentOf(node, host, name string) *v1alpha1.NVMeVolumeAttachment {
	return &v1alpha1.NVMeVolumeAttachment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.NVMeVolumeAttachmentSpec{
		VolumeRef:  v1alpha1.VolumeReference{Kind: v1alpha1.KindNVMePartition, Namespace: namespace, Name: "pvc-1", UID: uid},
		TargetNode: node, NodeID: host, HostNQN: "nqn.2026-01.io.distort:host-" + strings.Repeat("0", 32), AttachmentID: uid,
	}}
}

func heartbeat(node string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.LeaseNamePrefix + node},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(node), LeaseDurationSeconds: ptr.To[int32](v1alpha1.LeaseStaleSeconds)},
	}
}

// eventBy is what the recorder of a controller writes about a partition.
func eventBy(reporter, name string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, EventTime: metav1.NowMicro(),
		ReportingController: reporter, ReportingInstance: reporter + "-node-a", Action: "Export", Reason: "Exported", Type: corev1.EventTypeNormal, Note: "x",
		Regarding: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NVMePartition", Namespace: namespace, Name: "pvc-1", UID: uid},
	}
}

// probes are objects that each policy of the agent refuses to a caller without a
// node.
var probes = map[string]client.Object{
	"distort-agent-drives":       device("node-a", "probe"),
	"distort-agent-storage-node": storageNode("probe"),
	"distort-agent-heartbeat":    heartbeat("probe"),
	"distort-agent-events":       eventBy("distort-agent", "probe"),
}
