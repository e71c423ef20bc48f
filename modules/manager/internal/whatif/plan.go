package whatif

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/explain"
	"github.com/distort-io/distort/modules/manager/internal/gather"
)

// ErrNotFound: no node or drive has this name.
var ErrNotFound = errors.New("not found")

// Plan is what an action does.
type Plan struct {
	// Action and Subject are the question: drain-node storage-a.
	Action  string `json:"action"`
	Subject string `json:"subject"`
	// Volumes are the affected ones.
	Volumes []Impact `json:"volumes"`
	// Refusals are what stands in the way.
	Refusals   []Refusal            `json:"refusals"`
	Notes      []string             `json:"notes,omitempty"`
	Unreadable []explain.Unreadable `json:"unreadable,omitempty"`
}

// Role is how a volume comes into it.
type Role string

// Roles.
const (
	// Stored: the data is there.
	Stored Role = "stored"
	// Used: a pod there has it.
	Used Role = "used"
)

// Impact is what becomes of one volume.
type Impact struct {
	Partition string `json:"partition"`
	// Claim is "namespace/name" of the PersistentVolumeClaim.
	Claim string   `json:"claim,omitempty"`
	Bytes int64    `json:"bytes"`
	Role  Role     `json:"role"`
	Pods  []string `json:"pods,omitempty"`
	// Outage is what the pods notice.
	Outage string `json:"outage"`
}

// Refusal is something that stands in the way.
type Refusal struct {
	Object  string `json:"object"`
	Message string `json:"message"`
}

// plan begins a plan.
func plan(i *gather.Inventory, action, subject string) *Plan {
	return &Plan{Action: action, Subject: subject, Volumes: []Impact{}, Refusals: []Refusal{}, Unreadable: i.Unreadable}
}

func (p *Plan) refuse(object, format string, args ...any) {
	p.Refusals = append(p.Refusals, Refusal{object, fmt.Sprintf(format, args...)})
}

// affect adds a volume. Without pods nobody notices.
func (p *Plan) affect(i *gather.Inventory, v *v1alpha1.NVMePartition, role Role, pods []*corev1.Pod, outage string) {
	impact := Impact{Partition: v.Namespace + "/" + v.Name, Bytes: max(v.Spec.Size, v.Status.AllocatedCapacity), Role: role, Outage: outage}
	if claim, ok := i.ClaimOf(v); ok {
		impact.Claim = claim.String()
	}
	for _, pod := range pods {
		impact.Pods = append(impact.Pods, pod.Namespace+"/"+pod.Name)
	}
	p.Volumes = append(p.Volumes, impact)
}

// sorted orders what the plan lists.
func (p *Plan) sorted() *Plan {
	slices.SortStableFunc(p.Volumes, func(a, b Impact) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Claim, b.Claim), cmp.Compare(a.Partition, b.Partition))
	})
	slices.SortStableFunc(p.Refusals, func(a, b Refusal) int { return cmp.Compare(a.Object, b.Object) })
	return p
}

// stored lists the partitions of a node, or of one drive of it.
func stored(i *gather.Inventory, node, serial string) []*v1alpha1.NVMePartition {
	var found []*v1alpha1.NVMePartition
	for j := range i.Partitions {
		if p := &i.Partitions[j]; p.Spec.NodeName == node && (serial == "" || p.Spec.ParentDeviceSerialNumber == serial) {
			found = append(found, p)
		}
	}
	return found
}

func target(i *gather.Inventory, node string) *v1alpha1.RDMAStorageNode {
	for j := range i.Targets {
		if i.Targets[j].Name == node {
			return &i.Targets[j]
		}
	}
	return nil
}

func partitionOf(i *gather.Inventory, a *v1alpha1.NVMeVolumeAttachment) *v1alpha1.NVMePartition {
	for j := range i.Partitions {
		if i.Partitions[j].UID == a.Spec.VolumeRef.UID {
			return &i.Partitions[j]
		}
	}
	return nil
}

// podsOn keeps the pods that are on the node.
func podsOn(pods []*corev1.Pod, node string) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return p.Spec.NodeName != node })
}

// silent tells since when a node's agent is not heard of; false when it is
// alive, or when its Lease cannot be read.
func silent(i *gather.Inventory, now time.Time, node string) (time.Time, bool) {
	for j := range i.Leases {
		lease := &i.Leases[j]
		if lease.Name == v1alpha1.LeaseNamePrefix+node && lease.Spec.RenewTime != nil {
			renewed := lease.Spec.RenewTime.Time
			return renewed, now.Sub(renewed) >= v1alpha1.LeaseStaleSeconds*time.Second
		}
	}
	return time.Time{}, false
}
