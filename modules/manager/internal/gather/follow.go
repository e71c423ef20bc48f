package gather

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/explain"
)

// finish follows the claim, whose pods are known, to everything behind it.
func (v *visit) finish(ctx context.Context) (explain.Snapshot, error) {
	if claim := v.s.Claim; claim != nil {
		v.s.Class = v.class(ctx)
		v.s.Volume = read(ctx, v, explain.KindVolume, client.ObjectKey{Name: claim.Spec.VolumeName}, &corev1.PersistentVolume{})
		if v.err == nil && !v.ours() {
			return explain.Snapshot{}, fmt.Errorf("PersistentVolumeClaim %s/%s: %w", claim.Namespace, claim.Name, ErrNotOurs)
		}
		v.s.Partition = read(ctx, v, explain.KindPartition, v.partitionKey(), &v1alpha1.NVMePartition{})
	}
	v.followPartition(ctx)
	v.followPods(ctx)
	return v.s, v.err
}

// partitionKey names the volume's object: as the volume's handle says, else as
// csi-provisioner and distort-csi name it after the claim.
func (v *visit) partitionKey() client.ObjectKey {
	if v.s.Volume != nil && v.s.Volume.Spec.CSI != nil {
		h, err := handle.Parse(v.s.Volume.Spec.CSI.VolumeHandle)
		if err != nil || h.Kind != handle.NVMePartition {
			return client.ObjectKey{}
		}
		return client.ObjectKey{Namespace: h.Namespace, Name: h.Name}
	}
	return client.ObjectKey{Namespace: v.g.Namespace, Name: partitionName(v.s.Claim)}
}

func partitionName(claim *corev1.PersistentVolumeClaim) string {
	return identity.VolumeName("pvc-" + string(claim.UID))
}

// followPartition reads the drive, the storage node with its agent, and the
// attachments.
func (v *visit) followPartition(ctx context.Context) {
	p := v.s.Partition
	if p != nil && p.Spec.NodeName != "" {
		node := p.Spec.NodeName
		v.s.Device = read(ctx, v, explain.KindDevice, client.ObjectKey{Name: identity.DeviceName(node, p.Spec.ParentDeviceSerialNumber)}, &v1alpha1.NVMeDevice{})
		v.s.Target = read(ctx, v, explain.KindTarget, client.ObjectKey{Name: node}, &v1alpha1.RDMAStorageNode{})
		v.s.Lease = read(ctx, v, explain.KindLease, client.ObjectKey{Namespace: v.g.Namespace, Name: v1alpha1.LeaseNamePrefix + node}, &coordinationv1.Lease{})
		var attachments v1alpha1.NVMeVolumeAttachmentList
		v.list(ctx, explain.KindAttachment, "", &attachments, client.InNamespace(p.Namespace), client.MatchingFields{fieldTargetNode: node})
		for _, a := range attachments.Items {
			if a.Spec.VolumeRef.UID == p.UID {
				v.s.Attachments = append(v.s.Attachments, a)
			}
		}
	}
	var components corev1.PodList
	v.list(ctx, explain.KindComponent, "", &components, client.InNamespace(v.g.Namespace), client.MatchingLabels{explain.NameLabel: explain.NameValue})
	v.s.Components = components.Items
}

// followPods reads the nodes and their VolumeAttachments, and the warnings.
func (v *visit) followPods(ctx context.Context) {
	var consumers []string
	for i := range v.s.Pods {
		consumers = append(consumers, v.s.Pods[i].Spec.NodeName)
	}
	for i := range v.s.Attachments {
		consumers = append(consumers, v.s.Attachments[i].Spec.NodeID)
	}
	consumers = distinct(consumers)
	volume := v.volumeHandle()
	for _, node := range consumers {
		if volume == "" {
			break
		}
		if va := read(ctx, v, explain.KindVolumeAttachment, client.ObjectKey{Name: attachmentName(volume, node)}, &storagev1.VolumeAttachment{}); va != nil {
			v.s.VolumeAttachments = append(v.s.VolumeAttachments, *va)
		}
	}
	nodes := consumers
	if v.s.Partition != nil {
		nodes = distinct(append(nodes, v.s.Partition.Spec.NodeName))
	}
	for _, node := range nodes {
		if n := read(ctx, v, explain.KindNode, client.ObjectKey{Name: node}, &corev1.Node{}); n != nil {
			v.s.Nodes = append(v.s.Nodes, *n)
		}
	}
	if claim := v.s.Claim; claim != nil {
		v.readEvents(ctx, claim.Namespace, claim.Name, claim.UID)
	} else if v.s.Volume != nil {
		v.readEvents(ctx, "", v.s.Volume.Name, v.s.Volume.UID)
	}
	for i := range v.s.Pods {
		v.readEvents(ctx, v.s.Pods[i].Namespace, v.s.Pods[i].Name, v.s.Pods[i].UID)
	}
}

func (v *visit) readEvents(ctx context.Context, namespace, name string, regarding types.UID) {
	if namespace == "" {
		namespace = corev1.NamespaceDefault // of events about cluster-scoped objects
	}
	var events corev1.EventList
	v.list(ctx, explain.KindEvent, "about "+name, &events, client.InNamespace(namespace),
		client.MatchingFields{fieldRegarding: string(regarding), fieldType: corev1.EventTypeWarning})
	v.s.Events = append(v.s.Events, events.Items...)
}

// volumeHandle is the CSI volume ID, as Kubernetes or as the agent has it.
func (v *visit) volumeHandle() string {
	switch {
	case v.s.Volume != nil && v.s.Volume.Spec.CSI != nil:
		return v.s.Volume.Spec.CSI.VolumeHandle
	case v.s.Partition != nil:
		return v.s.Partition.Status.VolumeHandle
	}
	return ""
}

// attachmentName is the name that Kubernetes gives a VolumeAttachment
// (pkg/volume/csi, getAttachmentName).
func attachmentName(volume, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(volume+v1alpha1.DriverName+node)))
}

// distinct sorts names and drops what is empty or repeated.
func distinct(names []string) []string {
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "" })
	slices.Sort(names)
	return slices.Compact(names)
}
