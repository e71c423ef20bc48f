package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reasons of condition Ready of a StorageNode. Written by distort-agent.
const (
	// ReasonObservationSucceeded: the pools are exactly the declared ones.
	ReasonObservationSucceeded = "ObservationSucceeded"
	// ReasonNodeNotFound: no Kubernetes node has this name.
	ReasonNodeNotFound = "NodeNotFound"
	// ReasonNodeReadFailed: the Kubernetes node could not be read.
	ReasonNodeReadFailed = "NodeReadFailed"
	// ReasonInvalidAuthoritativeIdentity: spec names no usable pool identity.
	ReasonInvalidAuthoritativeIdentity = "InvalidAuthoritativeIdentity"
	// ReasonDisabled: spec.enabled is false.
	ReasonDisabled = "Disabled"
	// ReasonNodeNotReady: the Kubernetes node is not Ready.
	ReasonNodeNotReady = "NodeNotReady"
	// ReasonEndpointInvalid: no address can be published.
	ReasonEndpointInvalid = "EndpointInvalid"
	// ReasonCapacityAccountingFailed: the free space could not be sampled.
	ReasonCapacityAccountingFailed = "CapacityAccountingFailed"
	// ReasonDiscoveryFailed: the pools could not be listed.
	ReasonDiscoveryFailed = "DiscoveryFailed"
	// ReasonPoolIdentityMismatch: the pools that are online are not the declared
	// ones; nothing is created, exported or destroyed.
	ReasonPoolIdentityMismatch = "PoolIdentityMismatch"
)

// EndpointProtocol is what an endpoint of a storage node speaks.
// +kubebuilder:validation:Enum=nfs;nvme-tcp;nvme-rdma
type EndpointProtocol string

// Endpoint protocols, which are also the transports of a Volume.
const (
	ProtocolNFS      EndpointProtocol = "nfs"
	ProtocolNVMeTCP  EndpointProtocol = "nvme-tcp"
	ProtocolNVMeRDMA EndpointProtocol = "nvme-rdma"
)

// PoolGUID is a ZFS pool's GUID as a canonical decimal number, not zero.
// +kubebuilder:validation:Pattern=`^[1-9][0-9]{0,19}$`
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=20
type PoolGUID string

// StorageNodeSpec is written by an administrator.
// +kubebuilder:validation:XValidation:rule="self.networkDomain == oldSelf.networkDomain",message="networkDomain is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.authoritativePoolGUIDs) == has(oldSelf.authoritativePoolGUIDs) && (!has(self.authoritativePoolGUIDs) || self.authoritativePoolGUIDs == oldSelf.authoritativePoolGUIDs)",message="authoritativePoolGUIDs is immutable"
type StorageNodeSpec struct {
	// AuthoritativePoolGUIDs are the only pools that this node owns. A node that
	// serves drives alone has none.
	// +kubebuilder:validation:MaxItems=32
	// +listType=set
	// +optional
	AuthoritativePoolGUIDs []PoolGUID `json:"authoritativePoolGUIDs,omitempty"`
	// Enabled lets new volumes be placed here.
	// +kubebuilder:default=true
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// NetworkDomain is the network that the node's endpoints are on.
	NetworkDomain DomainName `json:"networkDomain"`
}

// Endpoint is an address of a storage node.
type Endpoint struct {
	// Protocol that the endpoint speaks.
	Protocol EndpointProtocol `json:"protocol"`
	// Host is an IPv4 address, an IPv6 address without brackets, or a DNS name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host"`
	// Port that the endpoint listens on.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
}

// PoolStatus is an observed pool.
type PoolStatus struct {
	// GUID is the pool's identity.
	GUID PoolGUID `json:"guid"`
	// Name is the pool's name now.
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name"`
	// FreeBytes is the sampled free space.
	// +kubebuilder:validation:Minimum=0
	FreeBytes int64 `json:"freeBytes"`
	// SampleGeneration only grows; a volume whose accountedGeneration it has
	// reached is part of the sample.
	// +kubebuilder:validation:Minimum=0
	SampleGeneration int64 `json:"sampleGeneration"`
	// CapacityObservedAt is when the sample was taken.
	// +optional
	CapacityObservedAt *metav1.Time `json:"capacityObservedAt,omitempty"`
	// Ready is true when volumes can be placed on the pool.
	// +optional
	Ready bool `json:"ready,omitempty"`
}

// PoolReservation is the space on a pool that a volume has, or is about to get, and
// that the published sample of the pool does not contain yet.
type PoolReservation struct {
	// PoolGUID is the pool.
	PoolGUID PoolGUID `json:"poolGUID"`
	// Name of the Volume.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID of the Volume.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=36
	UID types.UID `json:"uid"`
	// Size in bytes that is taken of the pool (capacity.Zvol).
	// +kubebuilder:validation:Minimum=1
	Size int64 `json:"size"`
}

// StorageNodeStatus is written by distort-agent, but for Reservations.
type StorageNodeStatus struct {
	// ObservedGeneration is the generation that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// LastObservedTime is when the pools were last looked at.
	// +optional
	LastObservedTime *metav1.Time `json:"lastObservedTime,omitempty"`
	// ReachableFrom are the network domains that reach the endpoints.
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	ReachableFrom []DomainName `json:"reachableFrom,omitempty"`
	// Endpoints are the addresses that volumes are served from.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	// Pools are the observed pools.
	// +listType=map
	// +listMapKey=guid
	// +optional
	Pools []PoolStatus `json:"pools,omitempty"`
	// Reservations are the volumes that the samples in Pools do not contain. Written
	// by distort-manager under the resourceVersion that the decision was made with,
	// before a volume is placed; so managers that are active at once never give more
	// than a pool has.
	// +kubebuilder:validation:MaxItems=1024
	// The API server refuses a second one of the same UID.
	// +listType=map
	// +listMapKey=uid
	// +optional
	Reservations []PoolReservation `json:"reservations,omitempty"`
	// Conditions are Ready and Audited.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// StorageNode is a logical owner of storage. Its name is the node's.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=distort
// +kubebuilder:selectablefield:JSONPath=`.spec.networkDomain`
// +kubebuilder:printcolumn:name="Domain",type=string,JSONPath=`.spec.networkDomain`
// +kubebuilder:printcolumn:name="Enabled",type=boolean,JSONPath=`.spec.enabled`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type StorageNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec StorageNodeSpec `json:"spec"`
	// +optional
	Status StorageNodeStatus `json:"status,omitempty"`
}

// StorageNodeList is a list of StorageNode.
// +kubebuilder:object:root=true
type StorageNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []StorageNode `json:"items"`
}
