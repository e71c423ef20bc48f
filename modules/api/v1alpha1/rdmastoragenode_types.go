package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fabric is the network that a portal is on.
// +kubebuilder:validation:Enum=RoCEv2;InfiniBand;TCP
type Fabric string

// Fabrics.
const (
	FabricRoCEv2     Fabric = "RoCEv2"
	FabricInfiniBand Fabric = "InfiniBand"
	FabricTCP        Fabric = "TCP"
)

// Liveness of a storage node is its Lease in the driver's namespace, named
// LeaseNamePrefix + node (design.md §3).
const (
	LeaseNamePrefix = "distort-agent-"
	// LeaseRenewSeconds is how often the agent renews its Lease.
	LeaseRenewSeconds = 15
	// LeaseStaleSeconds is the age of a Lease at which the node counts as gone.
	LeaseStaleSeconds = 45
)

// Condition Ready of an RDMAStorageNode: its agent is alive and has rebuilt its
// targets. True is written by distort-agent; False for a stale Lease by
// distort-manager.
const (
	ConditionReady = "Ready"
	// ReasonAgentReady: the agent runs and every target is as it should be.
	ReasonAgentReady = "AgentReady"
	// ReasonAgentStarting: the agent has not yet looked at every target.
	ReasonAgentStarting = "AgentStarting"
	// ReasonHeartbeatExpired: the Lease is older than LeaseStaleSeconds.
	ReasonHeartbeatExpired = "HeartbeatExpired"
	// ReasonNoUsablePortal: the node has no address that a target can listen on.
	ReasonNoUsablePortal = "NoUsablePortal"
)

// Condition NVMeInventoryReady of an RDMAStorageNode: the last scan of its
// drives was complete. SysfsInventoryReady and RDMAInventoryReady say the same
// of one source each. Written by distort-agent.
const (
	ConditionNVMeInventoryReady  = "NVMeInventoryReady"
	ConditionSysfsInventoryReady = "SysfsInventoryReady"
	ConditionRDMAInventoryReady  = "RDMAInventoryReady"
	// ReasonScanComplete: every entry could be read.
	ReasonScanComplete = "ScanComplete"
	// ReasonScanDegraded: something could not be read; what is missing from such a
	// scan is not taken for absent.
	ReasonScanDegraded = "ScanDegraded"
)

// Condition TargetAudited of an RDMAStorageNode: subsystems, admitted hosts and,
// where the target shows them, live controllers are what the objects say, and nobody
// else exports a claimed drive. The message names what the target does not show. It has
// the reasons of an NVMeDevice's condition Audited. Written by distort-agent.
const ConditionTargetAudited = "TargetAudited"

// Condition SPDKReady of an RDMAStorageNode: SPDK's target serves volumes there. Nodes
// without SPDK do not have it. Written by distort-agent.
const (
	ConditionSPDKReady = "SPDKReady"
	// ReasonTargetAnswers: the target was read.
	ReasonTargetAnswers = "TargetAnswers"
	// ReasonTargetUnavailable: it does not answer; the message says what was tried.
	ReasonTargetUnavailable = "TargetUnavailable"
	// ReasonAdmissionRefused: the node has too little for the target that the agent is to
	// start, which is not started, or the target that somebody else runs has too few
	// buffers for the queues that are expected, and gets no more volumes. The message has
	// the arithmetic.
	ReasonAdmissionRefused = "AdmissionRefused"
)

// NodePortal is an address of a storage node that a target can listen on.
type NodePortal struct {
	Portal `json:",inline"`
	// Fabric is the network that the address is on.
	Fabric Fabric `json:"fabric"`
	// Device is the RDMA device or network interface.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Device string `json:"device,omitempty"`
	// LinkSpeed in Mbit/s; absent when unknown.
	// +kubebuilder:validation:Minimum=0
	// +optional
	LinkSpeed int64 `json:"linkSpeed,omitempty"`
	// NUMANode of the network card; absent when unknown.
	// +kubebuilder:validation:Minimum=0
	// +optional
	NUMANode *int32 `json:"numaNode,omitempty"`
}

// RDMAStorageNodeSpec is what distort-agent found.
// +kubebuilder:validation:XValidation:rule="self.nodeName == oldSelf.nodeName",message="nodeName is immutable"
type RDMAStorageNodeSpec struct {
	// NodeName is the Kubernetes node.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`
	// Portals are the addresses that targets of this node listen on: for RDMA
	// only active ports with a usable address.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Portals []NodePortal `json:"portals,omitempty"`
	// TargetBackends are the backends that serve volumes on this node's drives now.
	// Absent, as from an agent of before there were others, it is the kernel alone.
	// +kubebuilder:validation:MaxItems=8
	// +listType=set
	// +optional
	TargetBackends []TargetBackend `json:"targetBackends,omitempty"`
}

// RDMAStorageNodeStatus is written by distort-agent, but for FreeCapacity and
// for Ready=False of a stale node.
type RDMAStorageNodeStatus struct {
	// LastHeartbeatTime is when the agent last wrote this status; its liveness is
	// the Lease.
	// +optional
	LastHeartbeatTime *metav1.Time `json:"lastHeartbeatTime,omitempty"`
	// TotalCapacity is the sum of the claimed drives' allocatable sizes in bytes.
	// +optional
	TotalCapacity int64 `json:"totalCapacity,omitempty"`
	// FreeCapacity is what placement can still give on this node in bytes.
	// Written by distort-manager.
	// +optional
	FreeCapacity *int64 `json:"freeCapacity,omitempty"`
	// ActiveExports counts the subsystems that this node exports.
	// +optional
	ActiveExports int32 `json:"activeExports,omitempty"`
	// Conditions are Ready, NVMeInventoryReady, one for each source, SPDKReady and
	// TargetAudited.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RDMAStorageNode is a node that serves volumes over the fabric. Its name is the
// node's.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=distort
// +kubebuilder:selectablefield:JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Portals",type=string,JSONPath=`.spec.portals[*].address`
// +kubebuilder:printcolumn:name="Exports",type=integer,JSONPath=`.status.activeExports`
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.totalCapacity`
// +kubebuilder:printcolumn:name="Free",type=integer,JSONPath=`.status.freeCapacity`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RDMAStorageNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RDMAStorageNodeSpec `json:"spec"`
	// +optional
	Status RDMAStorageNodeStatus `json:"status,omitempty"`
}

// RDMAStorageNodeList is a list of RDMAStorageNode.
// +kubebuilder:object:root=true
type RDMAStorageNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RDMAStorageNode `json:"items"`
}
