package volumetest

import (
	"crypto/sha256"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Namespace is where the objects of this package live.
const Namespace = v1alpha1.DefaultNamespace

// UID is a made-up UID in the form that the API server gives.
func UID(name string) types.UID {
	h := sha256.Sum256([]byte(name))
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16]))
}

// Claim is the claim of the node's drive.
func Claim() v1alpha1.ObjectReference {
	return v1alpha1.ObjectReference{Namespace: Namespace, Name: "claim", UID: UID("claim")}
}

// Device is the object of the node's drive, claimed.
func (n *Node) Device() *v1alpha1.NVMeDevice {
	claim := Claim()
	return &v1alpha1.NVMeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: identity.DeviceName(n.Name, n.Serial)},
		Spec: v1alpha1.NVMeDeviceSpec{
			NodeName: n.Name, PCIAddress: "0000:00:04.0", SerialNumber: n.Serial, TotalCapacity: n.Drive.Inventory().SizeBytes,
		},
		Status: v1alpha1.NVMeDeviceStatus{State: v1alpha1.DeviceClaimed, ClaimRef: &claim},
	}
}

// Partition is a partition of that size placed on the node, as distort-csi and
// distort-manager leave it.
func (n *Node) Partition(name string, size int64) *v1alpha1.NVMePartition {
	claim := Claim()
	return &v1alpha1.NVMePartition{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: name, UID: UID(name), Generation: 1, Finalizers: []string{v1alpha1.SliceFinalizer},
		},
		Spec: v1alpha1.NVMePartitionSpec{
			Size: size, TargetBackend: n.Backend(), VolumeManager: v1alpha1.VolumeManagerPartition, Transport: v1alpha1.TransportTCP,
			AccessMode: v1alpha1.ReadWriteOnce, AccessType: v1alpha1.AccessMount, Filesystem: v1alpha1.Ext4,
			RequestFingerprint: fmt.Sprintf("%x", sha256.Sum256([]byte(name))),
			NodeName:           n.Name, ParentDeviceSerialNumber: n.Serial, ClaimRef: &claim,
		},
	}
}

// Attachment attaches the volume to a consumer node, as distort-csi does.
func (n *Node) Attachment(s v1alpha1.Slice, consumer string) *v1alpha1.NVMeVolumeAttachment {
	name := identity.AttachmentName(string(s.GetUID()))
	if mode := s.GetAccessMode(); mode == v1alpha1.ReadWriteMany || mode == v1alpha1.ReadOnlyMany && s.GetFilesystemStatus().Recovered() {
		name = identity.SharedAttachmentName(string(s.GetUID()), consumer)
	}
	return &v1alpha1.NVMeVolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: name, Generation: 1, Finalizers: []string{v1alpha1.AccessFinalizer},
		},
		Spec: v1alpha1.NVMeVolumeAttachmentSpec{
			VolumeRef:  s.GetReference(),
			TargetNode: n.Name, NodeID: consumer, HostNQN: identity.HostNQN(consumer), AttachmentID: string(UID("attachment" + name + consumer)),
		},
	}
}

// PoolGUID is the pool of Volume.
const PoolGUID = "16223331268497365322"

// Volume is a Volume of that size on pool PoolGUID of the node, as distort-csi and
// distort-manager leave it.
func (n *Node) Volume(name string, size int64) *v1alpha1.Volume {
	return &v1alpha1.Volume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: UID(name), Generation: 1, Finalizers: []string{v1alpha1.SliceFinalizer}},
		Spec: v1alpha1.VolumeSpec{
			Type: v1alpha1.VolumeBlock, Capacity: size, Transport: v1alpha1.ProtocolNVMeTCP, AccessMode: v1alpha1.ReadWriteOnce, FSType: v1alpha1.Ext4,
			Provenance: v1alpha1.ProvenanceDynamic, DeletionPolicy: v1alpha1.DeletionDelete,
			RequestFingerprint: fmt.Sprintf("%x", sha256.Sum256([]byte(name))),
			OwnerNode:          n.Name, PoolGUID: PoolGUID, NetworkDomain: v1alpha1.DefaultNetworkDomain,
		},
	}
}

// Snapshot is a snapshot of a volume of the node.
func (n *Node) Snapshot(name string, of *v1alpha1.Volume) *v1alpha1.Snapshot {
	return &v1alpha1.Snapshot{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: UID("snapshot " + name), Generation: 1, Finalizers: []string{v1alpha1.SliceFinalizer}},
		Spec: v1alpha1.SnapshotSpec{
			Source: of.GetReference(), NodeName: n.Name, RequestFingerprint: fmt.Sprintf("%x", sha256.Sum256([]byte(name))),
		},
	}
}

// StorageNode declares pool PoolGUID to be the node's.
func (n *Node) StorageNode() *v1alpha1.StorageNode {
	return &v1alpha1.StorageNode{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: UID("storage node " + n.Name), Generation: 1},
		Spec: v1alpha1.StorageNodeSpec{
			AuthoritativePoolGUIDs: []v1alpha1.PoolGUID{PoolGUID}, NetworkDomain: v1alpha1.DefaultNetworkDomain,
		},
	}
}

// Formatted is the record of a finished format.
func Formatted(s v1alpha1.Slice) *v1alpha1.FilesystemStatus {
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	return &v1alpha1.FilesystemStatus{Type: v1alpha1.Ext4, UUID: identity.FilesystemUUID(string(s.GetUID())), FormatStartedAt: &at, FormattedAt: &at}
}

// NQN is the name of the volume's export.
func NQN(s v1alpha1.Slice) string {
	return identity.VolumeNQN(identity.ExternalID(string(s.GetUID())))
}
