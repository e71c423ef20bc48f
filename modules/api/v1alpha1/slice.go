package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Slice is an object that holds the data of a volume which is exported over
// NVMe-oF: an NVMePartition, or a Volume of type block. It is what placement,
// exports, attachments and callers need to know of either.
//
// +kubebuilder:object:generate=false
type Slice interface {
	metav1.Object
	runtime.Object

	// GetReference names the object in this life of it.
	GetReference() VolumeReference
	// GetTargetNode is the storage node, empty before the volume is placed.
	GetTargetNode() string
	// GetTargetBackend is what exports the volume.
	GetTargetBackend() TargetBackend
	// GetTransport is the transport of the export.
	GetTransport() Transport
	// GetAccessMode is who may use the volume at once.
	GetAccessMode() AccessMode
	// GetAccessType is how a pod sees the volume.
	GetAccessType() AccessType
	// GetFilesystem is the filesystem on the volume, empty for a raw one.
	GetFilesystem() FilesystemType
	// GetRequestFingerprint tells a retry of the request from another one.
	GetRequestFingerprint() string
	// GetSize is the wanted size in bytes.
	GetSize() int64
	// SetSize replaces it.
	SetSize(bytes int64)
	// GetActualSize is the size in bytes that was last read back, 0 before the volume
	// was carved.
	GetActualSize() int64
	// IsCarved tells whether capacity was ever made for the volume.
	IsCarved() bool
	// IsFailed tells whether a person must act on the volume.
	IsFailed() bool
	// IsZeroed tells whether what was never written reads as zeros.
	IsZeroed() bool
	// GetNQN is the subsystem of the export, empty before there is one.
	GetNQN() string
	// GetPortals are the addresses that the export was last seen on.
	GetPortals() []Portal
	// GetConditions are the object's conditions.
	GetConditions() []metav1.Condition
	// SetConditions replaces them.
	SetConditions([]metav1.Condition)
	// GetFilesystemStatus is the format record, nil when there is none.
	GetFilesystemStatus() *FilesystemStatus
	// SetFilesystemStatus replaces the format record.
	SetFilesystemStatus(*FilesystemStatus)
}

var (
	_ Slice = (*NVMePartition)(nil)
	_ Slice = (*Volume)(nil)
)

// GetReference implements Slice.
func (p *NVMePartition) GetReference() VolumeReference {
	return VolumeReference{Kind: KindNVMePartition, Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

// GetTargetNode implements Slice.
func (p *NVMePartition) GetTargetNode() string { return p.Spec.NodeName }

// GetTargetBackend implements Slice.
func (p *NVMePartition) GetTargetBackend() TargetBackend { return p.Spec.TargetBackend }

// GetTransport implements Slice.
func (p *NVMePartition) GetTransport() Transport { return p.Spec.Transport }

// GetAccessMode implements Slice.
func (p *NVMePartition) GetAccessMode() AccessMode { return p.Spec.AccessMode }

// GetAccessType implements Slice.
func (p *NVMePartition) GetAccessType() AccessType { return p.Spec.AccessType }

// GetFilesystem implements Slice.
func (p *NVMePartition) GetFilesystem() FilesystemType { return p.Spec.Filesystem }

// GetRequestFingerprint implements Slice.
func (p *NVMePartition) GetRequestFingerprint() string { return p.Spec.RequestFingerprint }

// GetSize implements Slice.
func (p *NVMePartition) GetSize() int64 { return p.Spec.Size }

// SetSize implements Slice.
func (p *NVMePartition) SetSize(bytes int64) { p.Spec.Size = bytes }

// GetActualSize implements Slice.
func (p *NVMePartition) GetActualSize() int64 { return p.Status.AllocatedCapacity }

// IsCarved implements Slice.
func (p *NVMePartition) IsCarved() bool {
	return p.Status.Backend != nil || p.Status.AllocatedCapacity > 0
}

// IsFailed implements Slice.
func (p *NVMePartition) IsFailed() bool { return p.Status.State == PartitionFailed }

// IsZeroed implements Slice.
func (p *NVMePartition) IsZeroed() bool { return p.Status.Zeroed }

// GetNQN implements Slice.
func (p *NVMePartition) GetNQN() string { return p.Status.NQN }

// GetPortals implements Slice.
func (p *NVMePartition) GetPortals() []Portal { return p.Status.Portals }

// GetConditions implements Slice.
func (p *NVMePartition) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions implements Slice.
func (p *NVMePartition) SetConditions(c []metav1.Condition) { p.Status.Conditions = c }

// GetFilesystemStatus implements Slice.
func (p *NVMePartition) GetFilesystemStatus() *FilesystemStatus { return p.Status.Filesystem }

// SetFilesystemStatus implements Slice.
func (p *NVMePartition) SetFilesystemStatus(f *FilesystemStatus) { p.Status.Filesystem = f }

// GetReference implements Slice.
func (v *Volume) GetReference() VolumeReference {
	return VolumeReference{Kind: KindVolume, Name: v.Name, UID: v.UID}
}

// GetTargetNode implements Slice.
func (v *Volume) GetTargetNode() string { return v.Spec.OwnerNode }

// GetTargetBackend implements Slice: zvols are exported by the kernel.
func (v *Volume) GetTargetBackend() TargetBackend { return BackendKernel }

// GetTransport implements Slice. It is empty for a volume that is exported over
// NFS.
func (v *Volume) GetTransport() Transport {
	switch v.Spec.Transport {
	case ProtocolNVMeTCP:
		return TransportTCP
	case ProtocolNVMeRDMA:
		return TransportRDMA
	}
	return ""
}

// GetAccessMode implements Slice. A volume that does not say has one writer.
func (v *Volume) GetAccessMode() AccessMode {
	if v.Spec.AccessMode == "" {
		return ReadWriteOnce
	}
	return v.Spec.AccessMode
}

// GetAccessType implements Slice.
func (v *Volume) GetAccessType() AccessType {
	if v.Spec.Type == VolumeBlock && v.Spec.FSType == "" {
		return AccessBlock
	}
	return AccessMount
}

// GetFilesystem implements Slice.
func (v *Volume) GetFilesystem() FilesystemType { return v.Spec.FSType }

// GetRequestFingerprint implements Slice.
func (v *Volume) GetRequestFingerprint() string { return v.Spec.RequestFingerprint }

// GetSize implements Slice.
func (v *Volume) GetSize() int64 { return v.Spec.Capacity }

// SetSize implements Slice.
func (v *Volume) SetSize(bytes int64) { v.Spec.Capacity = bytes }

// GetActualSize implements Slice.
func (v *Volume) GetActualSize() int64 { return v.Status.ActualCapacity }

// IsCarved implements Slice.
func (v *Volume) IsCarved() bool { return v.Status.DatasetGUID != "" || v.Status.ActualCapacity > 0 }

// IsFailed implements Slice.
func (v *Volume) IsFailed() bool { return v.Status.State == VolumeError }

// IsZeroed implements Slice: a new zvol has no blocks, and a clone has those of its
// source.
func (v *Volume) IsZeroed() bool { return v.Spec.SourceSnapshot == nil && v.Spec.SourceVolume == nil }

// GetNQN implements Slice.
func (v *Volume) GetNQN() string { return v.Status.TargetNQN }

// GetPortals implements Slice.
func (v *Volume) GetPortals() []Portal { return v.Status.Portals }

// GetConditions implements Slice.
func (v *Volume) GetConditions() []metav1.Condition { return v.Status.Conditions }

// SetConditions implements Slice.
func (v *Volume) SetConditions(c []metav1.Condition) { v.Status.Conditions = c }

// GetFilesystemStatus implements Slice.
func (v *Volume) GetFilesystemStatus() *FilesystemStatus { return v.Status.Filesystem }

// SetFilesystemStatus implements Slice.
func (v *Volume) SetFilesystemStatus(f *FilesystemStatus) { v.Status.Filesystem = f }

// NewSlice returns an empty object of the kind, nil for a kind that is not known.
func NewSlice(kind VolumeKind) Slice {
	switch kind {
	case KindNVMePartition:
		return &NVMePartition{}
	case KindVolume:
		return &Volume{}
	}
	return nil
}
