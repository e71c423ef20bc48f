package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Finalizers. Each is removed by the program named, after it has proved that
// nothing of the object is left outside Kubernetes.
const (
	// ClaimFinalizer holds an NVMeDeviceClaim until its drive is released
	// (distort-manager).
	ClaimFinalizer = "storage.distort.io/claim"
	// SliceFinalizer holds an NVMePartition, Volume or Snapshot until its capacity
	// and export are gone (distort-agent).
	SliceFinalizer = "storage.distort.io/slice"
	// AccessFinalizer holds an NVMeVolumeAttachment until its host is fenced
	// (distort-agent).
	AccessFinalizer = "storage.distort.io/access"
)

// Annotations that people set.
const (
	// ForceDetachAnnotation on an NVMeVolumeAttachment names the node that may
	// be detached although it does not answer (design.md §6).
	ForceDetachAnnotation = "storage.distort.io/force-detach-node"
	// CordonedAnnotation on an NVMeDevice or StorageNode keeps new volumes away; see
	// Cordoned.
	CordonedAnnotation = "storage.distort.io/cordoned"
	// AbandonDataAnnotation on an NVMePartition or Volume that is being deleted, with
	// the object's UID as its value, lets it go although its drive or pool is missing:
	// nothing on any medium is touched, and what the drive or pool holds is left to
	// whoever has it. While it is there the annotation changes nothing.
	AbandonDataAnnotation = "storage.distort.io/abandon-data"
)

const (
	// DriverName is the name of the CSI driver.
	DriverName = "storage.distort.io"
	// TopologyKey is the default key of the node label, and of the CSI topology
	// segment, that holds a node's network domain.
	TopologyKey = "topology.storage.distort.io/network-domain"
	// DefaultNetworkDomain is the network domain of a storage node that no
	// StorageNode describes, unless configured otherwise.
	DefaultNetworkDomain = "default"
	// DefaultNamespace is where namespaced volume objects live, unless
	// configured otherwise.
	DefaultNamespace = "distort-system"
)

// TargetBackend is what exports a slice of a drive.
// +kubebuilder:validation:Enum=kernel;spdk
type TargetBackend string

// Target backends.
const (
	// BackendKernel exports through the kernel's nvmet.
	BackendKernel TargetBackend = "kernel"
	// BackendSPDK exports through SPDK's nvmf_tgt.
	BackendSPDK TargetBackend = "spdk"
)

// Transport is an NVMe-oF transport.
// +kubebuilder:validation:Enum=rdma;tcp
type Transport string

// Transports.
const (
	TransportRDMA Transport = "rdma"
	TransportTCP  Transport = "tcp"
)

// AccessMode is who may use a volume at once.
// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteOncePod;ReadOnlyMany;ReadWriteMany
type AccessMode string

// Access modes, named as in PersistentVolumeClaims.
const (
	ReadWriteOnce    AccessMode = "ReadWriteOnce"
	ReadWriteOncePod AccessMode = "ReadWriteOncePod"
	ReadOnlyMany     AccessMode = "ReadOnlyMany"
	ReadWriteMany    AccessMode = "ReadWriteMany"
)

// AccessType is how a pod sees a volume.
// +kubebuilder:validation:Enum=mount;block
type AccessType string

// Access types.
const (
	// AccessMount is a mounted filesystem.
	AccessMount AccessType = "mount"
	// AccessBlock is a raw block device.
	AccessBlock AccessType = "block"
)

// FilesystemType is a filesystem that the node plugin can make and mount.
// +kubebuilder:validation:Enum=ext4;xfs
type FilesystemType string

// Filesystems.
const (
	Ext4 FilesystemType = "ext4"
	XFS  FilesystemType = "xfs"
)

// DomainName is the value of a network domain, in the grammar of label values.
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
type DomainName string

// ObjectReference names an object in one life.
type ObjectReference struct {
	// Namespace is the object's namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name is the object's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID is the object's identity: a recreated object of the same name is
	// another one.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=36
	UID types.UID `json:"uid"`
}

// VolumeKind is a kind that holds the data of a volume.
// +kubebuilder:validation:Enum=NVMePartition;Volume
type VolumeKind string

// Volume kinds.
const (
	KindNVMePartition VolumeKind = "NVMePartition"
	KindVolume        VolumeKind = "Volume"
)

// VolumeReference names the object that holds a volume.
// +kubebuilder:validation:XValidation:rule="(self.kind == 'NVMePartition') == has(self.__namespace__)",message="namespace must be set for an NVMePartition and absent for a Volume, which has cluster scope"
type VolumeReference struct {
	// Kind is the kind of the object.
	Kind VolumeKind `json:"kind"`
	// Namespace is the object's namespace; a Volume has none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name is the object's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID is the object's identity.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=36
	UID types.UID `json:"uid"`
}

// SnapshotReference names a Snapshot.
type SnapshotReference struct {
	// Name is the Snapshot's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID is the Snapshot's identity.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=36
	UID types.UID `json:"uid"`
}

// TopologyRequirement says from which network domains a volume must be
// reachable (CSI spec, TopologyRequirement).
type TopologyRequirement struct {
	// Requisite are the domains of which one must reach the volume; empty means
	// any.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Requisite []DomainName `json:"requisite,omitempty"`
	// Preferred ranks domains inside Requisite, best first.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Preferred []DomainName `json:"preferred,omitempty"`
}

// Portal is an address where a target listens.
type Portal struct {
	// Transport of the listener.
	Transport Transport `json:"transport"`
	// Address is an IPv4 address or an IPv6 address without brackets.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=45
	Address string `json:"address"`
	// Port is the transport service ID, a TCP or RDMA-CM port.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
}

// FilesystemStatus records how far the only format of a volume came. A volume
// without one was never formatted; one with FormattedAt is never formatted
// again; in between, nothing was ever mounted and mkfs may run again.
type FilesystemStatus struct {
	// Type of the filesystem.
	Type FilesystemType `json:"type"`
	// UUID that the filesystem is made with, identity.FilesystemUUID.
	// +kubebuilder:validation:MaxLength=36
	UUID string `json:"uuid"`
	// FormatStartedAt is when mkfs was about to run.
	// +optional
	FormatStartedAt *metav1.Time `json:"formatStartedAt,omitempty"`
	// FormattedAt is when the filesystem was read back after mkfs.
	// +optional
	FormattedAt *metav1.Time `json:"formattedAt,omitempty"`
	// RecoveredAt is when the first node that reads a ReadOnlyMany volume had
	// replayed its journal, after which no node writes to it. Other volumes have
	// none.
	// +optional
	RecoveredAt *metav1.Time `json:"recoveredAt,omitempty"`
}

// Recovered tells whether nodes may read the filesystem side by side.
func (f *FilesystemStatus) Recovered() bool { return f != nil && f.RecoveredAt != nil }
