package apiserver

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const (
	mib  = int64(1) << 20
	uidA = "7b1c36c5-3a4f-4a0b-9d5e-2f6c1d7e8a90"
	uidB = "0f9e8d7c-6b5a-4c3d-8e2f-1a0b9c8d7e6f"
)

var (
	fingerprintA = strings.Repeat("a", 64)
	fingerprintB = strings.Repeat("b", 64)
)

var namespaced = metav1.ObjectMeta{Namespace: metav1.NamespaceDefault}

func device() *v1alpha1.NVMeDevice {
	return &v1alpha1.NVMeDevice{Spec: v1alpha1.NVMeDeviceSpec{
		NodeName: "storage-a", PCIAddress: "0000:3b:00.0", SerialNumber: "S4EMNX0R123456", Model: "QEMU NVMe Ctrl",
		TotalCapacity: 4096 * mib, NUMANode: ptr.To[int32](0),
	}}
}

func reservedDevice() *v1alpha1.NVMeDevice {
	d := device()
	d.Status.ClaimRef = &v1alpha1.ObjectReference{Namespace: "default", Name: "claim", UID: uidA}
	d.Status.Reservations = []v1alpha1.Reservation{{
		ObjectReference: v1alpha1.ObjectReference{Namespace: "default", Name: "pvc-1", UID: uidB}, Size: 64 * mib, TargetBackend: v1alpha1.BackendKernel,
	}}
	return d
}

func claim() *v1alpha1.NVMeDeviceClaim {
	return &v1alpha1.NVMeDeviceClaim{ObjectMeta: namespaced, Spec: v1alpha1.NVMeDeviceClaimSpec{SerialNumber: "S4EMNX0R123456"}}
}

func partition() *v1alpha1.NVMePartition {
	return &v1alpha1.NVMePartition{ObjectMeta: namespaced, Spec: v1alpha1.NVMePartitionSpec{
		Size: 64 * mib, TargetBackend: v1alpha1.BackendKernel, VolumeManager: v1alpha1.VolumeManagerPartition,
		Transport: v1alpha1.TransportTCP, AccessMode: v1alpha1.ReadWriteOnce, AccessType: v1alpha1.AccessMount,
		Filesystem: v1alpha1.Ext4, RequestFingerprint: fingerprintA,
	}}
}

func spdkPartition() *v1alpha1.NVMePartition {
	p := partition()
	p.Spec.TargetBackend = v1alpha1.BackendSPDK
	p.Spec.TargetOptions = &v1alpha1.TargetOptions{SPDKCoreMask: "0x3"}
	return p
}

func placedPartition() *v1alpha1.NVMePartition {
	p := partition()
	place(p)
	return p
}

func place(p *v1alpha1.NVMePartition) {
	p.Spec.NodeName, p.Spec.ParentDeviceSerialNumber = "storage-a", "S4EMNX0R123456"
	p.Spec.ClaimRef = &v1alpha1.ObjectReference{Namespace: "default", Name: "claim", UID: uidA}
}

func partitionRef() v1alpha1.VolumeReference {
	return v1alpha1.VolumeReference{Kind: v1alpha1.KindNVMePartition, Namespace: "default", Name: "pvc-1", UID: uidA}
}

func volumeRef() v1alpha1.VolumeReference {
	return v1alpha1.VolumeReference{Kind: v1alpha1.KindVolume, Name: "pvc-2", UID: uidB}
}

func attachment() *v1alpha1.NVMeVolumeAttachment {
	return &v1alpha1.NVMeVolumeAttachment{ObjectMeta: namespaced, Spec: v1alpha1.NVMeVolumeAttachmentSpec{
		VolumeRef: partitionRef(), TargetNode: "storage-a", NodeID: "consumer-a",
		HostNQN:      "nqn.2026-01.io.distort:host-0123456789abcdef0123456789abcdef",
		AttachmentID: uidB,
	}}
}

func rdmaNode() *v1alpha1.RDMAStorageNode {
	return &v1alpha1.RDMAStorageNode{Spec: v1alpha1.RDMAStorageNodeSpec{
		NodeName: "storage-a",
		Portals: []v1alpha1.NodePortal{{
			Portal: v1alpha1.Portal{Transport: v1alpha1.TransportTCP, Address: "fd00::1", Port: 4420},
			Fabric: v1alpha1.FabricTCP, Device: "eth0", LinkSpeed: 25000,
		}},
	}}
}

func storageNode() *v1alpha1.StorageNode {
	return &v1alpha1.StorageNode{Spec: v1alpha1.StorageNodeSpec{
		AuthoritativePoolGUIDs: []v1alpha1.PoolGUID{"1234567890123456789"}, NetworkDomain: "rack-1",
	}}
}

func blockVolume() *v1alpha1.Volume {
	return &v1alpha1.Volume{Spec: v1alpha1.VolumeSpec{
		Type: v1alpha1.VolumeBlock, Capacity: 64 * mib, Transport: v1alpha1.ProtocolNVMeTCP, FSType: v1alpha1.XFS,
		VolBlockSize: 16384, Compression: "zstd-3", Provenance: v1alpha1.ProvenanceDynamic,
		DeletionPolicy: v1alpha1.DeletionDelete, RequestFingerprint: fingerprintA,
	}}
}

func nfsExport() *v1alpha1.NFSExport {
	return &v1alpha1.NFSExport{CIDRs: []string{"10.0.0.0/24", "fd00::/64"}}
}

func nfsVolume() *v1alpha1.Volume {
	v := blockVolume()
	v.Spec.Type, v.Spec.Transport, v.Spec.FSType, v.Spec.VolBlockSize = v1alpha1.VolumeFilesystem, v1alpha1.ProtocolNFS, "", 0
	v.Spec.NFSExport = nfsExport()
	return v
}

func placedVolume() *v1alpha1.Volume {
	v := blockVolume()
	placeVolume(v)
	return v
}

func placeVolume(v *v1alpha1.Volume) {
	v.Spec.OwnerNode, v.Spec.PoolGUID, v.Spec.NetworkDomain = "storage-a", "1234567890123456789", "rack-1"
}

func snapshot() *v1alpha1.Snapshot {
	return &v1alpha1.Snapshot{Spec: v1alpha1.SnapshotSpec{Source: volumeRef(), NodeName: "storage-a", RequestFingerprint: fingerprintA}}
}

func blockImport() *v1alpha1.VolumeImport {
	return &v1alpha1.VolumeImport{Spec: v1alpha1.VolumeImportSpec{
		OwnerNode: "storage-a", PoolGUID: "1234567890123456789", Dataset: "vms/disk-1",
		Type: v1alpha1.VolumeBlock, Transport: v1alpha1.ProtocolNVMeTCP,
	}}
}

func nfsImport() *v1alpha1.VolumeImport {
	i := blockImport()
	i.Spec.Type, i.Spec.Transport, i.Spec.NFSExport = v1alpha1.VolumeFilesystem, v1alpha1.ProtocolNFS, nfsExport()
	return i
}

// completeObjects is one object of each kind of which every selectable field
// and every print column has a value.
func completeObjects() []client.Object {
	condition := func(kind string) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: "Tested", LastTransitionTime: metav1.Now()}}
	}

	d := device()
	d.Status = v1alpha1.NVMeDeviceStatus{
		State: v1alpha1.DeviceClaimed, ClaimRef: &v1alpha1.ObjectReference{Namespace: "default", Name: "claim", UID: uidA},
		FreeCapacity: ptr.To(64 * mib), ActiveBackend: v1alpha1.ActiveBackendKernel, Conditions: condition(v1alpha1.ConditionMediaUsable),
	}
	c := claim()
	c.Status = v1alpha1.NVMeDeviceClaimStatus{Active: true, MatchedDevice: "storage-a-1", NodeName: "storage-a", Conditions: condition(v1alpha1.ConditionBound)}
	p := placedPartition()
	p.Status = v1alpha1.NVMePartitionStatus{State: v1alpha1.PartitionExported, NQN: "nqn.2026-02.io.distort:volume-vol-1"}
	a := attachment()
	a.Status.Conditions = condition(v1alpha1.ConditionAccessReady)
	r := rdmaNode()
	r.Status = v1alpha1.RDMAStorageNodeStatus{TotalCapacity: 64 * mib, FreeCapacity: ptr.To(4 * mib), ActiveExports: 1, Conditions: condition(v1alpha1.ConditionReady)}
	n := storageNode()
	n.Status.Conditions = condition(v1alpha1.ConditionReady)
	v := placedVolume()
	v.Status = v1alpha1.VolumeStatus{State: v1alpha1.VolumeReadyToPublish, DatasetPath: "tank/distort/vol-1"}
	s := snapshot()
	s.Status = v1alpha1.SnapshotStatus{ReadyToUse: true, Size: 64 * mib}
	i := blockImport()
	i.Status = v1alpha1.VolumeImportStatus{VolumeName: "import-1", Conditions: condition(v1alpha1.ConditionAdopted)}
	return []client.Object{d, c, p, a, r, n, v, s, i}
}
