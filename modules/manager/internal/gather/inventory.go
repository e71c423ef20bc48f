package gather

import (
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/explain"
)

// Inventory is everything that holds volumes and everything that uses them.
type Inventory struct {
	Targets     []v1alpha1.RDMAStorageNode
	Owners      []v1alpha1.StorageNode
	Devices     []v1alpha1.NVMeDevice
	Claims      []v1alpha1.NVMeDeviceClaim
	Partitions  []v1alpha1.NVMePartition
	Attachments []v1alpha1.NVMeVolumeAttachment
	// Leases are those in the driver's namespace.
	Leases  []coordinationv1.Lease
	Volumes []corev1.PersistentVolume
	Pods    []corev1.Pod
	Nodes   []corev1.Node
	Budgets []policyv1.PodDisruptionBudget

	Unreadable []explain.Unreadable
}

// Storage reads what holds volumes. Without the drives and the partitions there
// is nothing to say, so that they must be readable.
func (g *Gatherer) Storage(ctx context.Context) (*Inventory, error) {
	v := g.start("", client.ObjectKey{})
	var (
		targets    v1alpha1.RDMAStorageNodeList
		owners     v1alpha1.StorageNodeList
		devices    v1alpha1.NVMeDeviceList
		claims     v1alpha1.NVMeDeviceClaimList
		partitions v1alpha1.NVMePartitionList
		volumes    corev1.PersistentVolumeList
	)
	for _, needed := range []client.ObjectList{&devices, &partitions} {
		if err := g.Reader.List(ctx, needed); err != nil {
			return nil, fmt.Errorf("read the inventory: %w", err)
		}
	}
	v.list(ctx, explain.KindTarget, "", &targets)
	v.list(ctx, "StorageNode", "", &owners)
	v.list(ctx, "NVMeDeviceClaim", "", &claims)
	v.list(ctx, explain.KindVolume, "", &volumes)
	return &Inventory{
		Targets: targets.Items, Owners: owners.Items, Devices: devices.Items, Claims: claims.Items, Partitions: partitions.Items,
		Volumes: volumes.Items, Unreadable: v.s.Unreadable,
	}, v.err
}

// Everything reads what Storage does, and what uses it.
func (g *Gatherer) Everything(ctx context.Context) (*Inventory, error) {
	i, err := g.Storage(ctx)
	if err != nil {
		return nil, err
	}
	v := g.start("", client.ObjectKey{})
	var (
		attachments v1alpha1.NVMeVolumeAttachmentList
		leases      coordinationv1.LeaseList
		pods        corev1.PodList
		nodes       corev1.NodeList
		budgets     policyv1.PodDisruptionBudgetList
	)
	v.list(ctx, explain.KindAttachment, "", &attachments)
	v.list(ctx, explain.KindLease, "", &leases, client.InNamespace(g.Namespace))
	v.list(ctx, explain.KindPod, "", &pods)
	v.list(ctx, explain.KindNode, "", &nodes)
	v.list(ctx, "PodDisruptionBudget", "", &budgets)
	i.Attachments, i.Leases, i.Pods, i.Nodes, i.Budgets = attachments.Items, leases.Items, pods.Items, nodes.Items, budgets.Items
	i.Unreadable = append(i.Unreadable, v.s.Unreadable...)
	return i, v.err
}

// VolumeOf is the PersistentVolume of a partition, nil when none is known.
func (i *Inventory) VolumeOf(p *v1alpha1.NVMePartition) *corev1.PersistentVolume {
	for j := range i.Volumes {
		csi := i.Volumes[j].Spec.CSI
		if csi != nil && csi.Driver == v1alpha1.DriverName && p.Status.VolumeHandle != "" && csi.VolumeHandle == p.Status.VolumeHandle {
			return &i.Volumes[j]
		}
	}
	return nil
}

// ClaimOf is the claim of a partition, false when none is known.
func (i *Inventory) ClaimOf(p *v1alpha1.NVMePartition) (client.ObjectKey, bool) {
	v := i.VolumeOf(p)
	if v == nil || v.Spec.ClaimRef == nil {
		return client.ObjectKey{}, false
	}
	return client.ObjectKey{Namespace: v.Spec.ClaimRef.Namespace, Name: v.Spec.ClaimRef.Name}, true
}

// PodsOf are the pods that use a partition's claim and have not ended.
func (i *Inventory) PodsOf(p *v1alpha1.NVMePartition) []*corev1.Pod {
	claim, ok := i.ClaimOf(p)
	if !ok {
		return nil
	}
	var pods []*corev1.Pod
	for j := range i.Pods {
		pod := &i.Pods[j]
		if pod.Namespace == claim.Namespace && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed &&
			slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return explain.ClaimName(pod, &v) == claim.Name }) {
			pods = append(pods, pod)
		}
	}
	return pods
}
