package explain

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Snapshot is everything that is known of one volume. An object that is nil does
// not exist, unless Unreadable names its kind.
type Snapshot struct {
	// Now is the time at which the snapshot was taken.
	Now time.Time
	// Namespace is the driver's.
	Namespace string
	Subject   Subject

	Claim  *corev1.PersistentVolumeClaim
	Class  *storagev1.StorageClass
	Volume *corev1.PersistentVolume

	Partition *v1alpha1.NVMePartition
	Device    *v1alpha1.NVMeDevice
	// Target is the storage node that the partition is on, Lease its agent's.
	Target *v1alpha1.RDMAStorageNode
	Lease  *coordinationv1.Lease

	// Attachments are those of the partition, VolumeAttachments those of the
	// volume.
	Attachments       []v1alpha1.NVMeVolumeAttachment
	VolumeAttachments []storagev1.VolumeAttachment
	// Pods use the claim.
	Pods []corev1.Pod
	// Nodes are the pods' and the target's.
	Nodes []corev1.Node
	// Events are the warnings about the claim, the volume and the pods.
	Events []corev1.Event
	// Components are DISTORT's own pods.
	Components []corev1.Pod

	Unreadable []Unreadable
}

// Kinds, as evidence names them.
const (
	KindClaim            = "PersistentVolumeClaim"
	KindClass            = "StorageClass"
	KindVolume           = "PersistentVolume"
	KindPartition        = "NVMePartition"
	KindDevice           = "NVMeDevice"
	KindTarget           = "RDMAStorageNode"
	KindLease            = "Lease"
	KindAttachment       = "NVMeVolumeAttachment"
	KindVolumeAttachment = "VolumeAttachment"
	KindPod              = "Pod"
	KindComponent        = "Pod of DISTORT"
	KindNode             = "Node"
	KindEvent            = "Event"
)

// unreadable tells whether something of the kind could not be read.
func (s *Snapshot) unreadable(kind string) bool {
	return slices.ContainsFunc(s.Unreadable, func(u Unreadable) bool { return u.Kind == kind })
}

// consumers are the pods that need the volume: not those that ended or are being
// deleted.
func (s *Snapshot) consumers() []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range s.Pods {
		p := &s.Pods[i]
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if p.DeletionTimestamp == nil && !ended {
			pods = append(pods, p)
		}
	}
	return pods
}

func (s *Snapshot) node(name string) *corev1.Node {
	for i := range s.Nodes {
		if s.Nodes[i].Name == name {
			return &s.Nodes[i]
		}
	}
	return nil
}

// attachmentOf is the node's attachment, and otherwise one of another node.
func (s *Snapshot) attachmentOf(node string) (own, other *v1alpha1.NVMeVolumeAttachment) {
	for i := range s.Attachments {
		if a := &s.Attachments[i]; a.Spec.NodeID == node {
			own = a
		} else {
			other = a
		}
	}
	return own, other
}

func (s *Snapshot) volumeAttachmentOf(node string) *storagev1.VolumeAttachment {
	for i := range s.VolumeAttachments {
		if s.VolumeAttachments[i].Spec.NodeName == node {
			return &s.VolumeAttachments[i]
		}
	}
	return nil
}
