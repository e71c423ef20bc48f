package explain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// capacityCommand shows why nothing can hold a volume.
const capacityCommand = "kubectl distort capacity"

// judgePlacement judges whether the volume has a node and a drive.
func judgePlacement(s *Snapshot) Finding {
	if f := s.provisioningFailed(Placement); f != nil {
		return *f
	}
	p := s.Partition
	if p == nil {
		return s.partitionMissing()
	}
	object := name(KindPartition, p.Namespace, p.Name)
	if s.Volume != nil {
		if h, err := s.handle(); err == nil && h.UID != string(p.UID) {
			return broken(Owner{Component: CSIController}, fmt.Sprintf("%s is another volume than the one that %s was bound to", object, s.Volume.Name),
				Evidence{Object: object, Reason: "Recreated", Message: fmt.Sprintf("its UID is %s, the volume's is %s", p.UID, h.UID), Since: at(p.CreationTimestamp.Time)})
		}
	}
	switch e := falseCondition(object, p.Status.Conditions, v1alpha1.ConditionPlaced); {
	case p.DeletionTimestamp != nil && s.Claim != nil:
		return broken(Owner{Component: CSIController}, object+" is being deleted under its claim",
			Evidence{Object: object, Reason: "Deleting", Message: fmt.Sprintf("waits for %s", strings.Join(p.Finalizers, ", ")), Since: at(p.DeletionTimestamp.Time)})
	case p.Spec.NodeName != "":
		return passed("on node %s, drive %s", p.Spec.NodeName, p.Spec.ParentDeviceSerialNumber)
	case e != nil:
		f := broken(Owner{Component: Manager}, e.Message, *e)
		f.Next = capacityCommand
		return f
	}
	return s.waiting(Owner{Component: Manager}, p.CreationTimestamp.Time, "not placed yet")
}

// partitionMissing is the finding when there is no object of the volume.
func (s *Snapshot) partitionMissing() Finding {
	if s.unreadable(KindPartition) {
		return unknown(KindPartition)
	}
	if e, _ := s.provisioning(); e != nil {
		return passed("was done when the failure was reported")
	}
	if s.Volume != nil {
		if h, err := s.handle(); err == nil && h.Kind != handle.NVMePartition {
			return Finding{State: Unknown, Reason: "UnknownKind", Message: fmt.Sprintf("the volume is a %s, which this version does not explain", h.Kind)}
		}
	}
	object := name(KindPartition, s.Namespace, s.volumeName())
	return broken(Owner{Component: CSIController}, object+" of the claim does not exist", Evidence{Object: object, Reason: "NotFound"})
}

// judgeStorage judges whether the slice is there: its agent, its drive, itself.
func judgeStorage(s *Snapshot) Finding {
	if f := s.provisioningFailed(Storage); f != nil {
		return *f
	}
	p := s.Partition
	if p == nil {
		return s.partitionMissing()
	}
	if f := s.agentDead(); f != nil {
		return *f
	}
	owner := Owner{Component: Agent, Node: p.Spec.NodeName}
	object := name(KindPartition, p.Namespace, p.Name)
	if e := falseCondition(object, p.Status.Conditions, v1alpha1.ConditionClaimAuthorized); e != nil {
		if e.Reason == v1alpha1.ReasonClaimMismatch {
			owner = Owner{Component: Manager}
		}
		return brokenBy(owner, e)
	}
	if d := s.Device; d != nil {
		if e := falseCondition(name(KindDevice, "", d.Name), d.Status.Conditions, v1alpha1.ConditionHardwareAvailable); e != nil {
			return brokenBy(owner, e)
		}
	}
	if e := falseCondition(object, p.Status.Conditions, v1alpha1.ConditionProvisioned); e != nil {
		return brokenBy(owner, e)
	}
	if meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionProvisioned) {
		f := passed("%s on drive %s", resource.NewQuantity(p.Status.AllocatedCapacity, resource.BinarySI), p.Spec.ParentDeviceSerialNumber)
		// A volume that cannot grow works as before.
		if e := falseCondition(object, p.Status.Conditions, v1alpha1.ConditionResized); e != nil {
			f.Note = fmt.Sprintf("cannot grow: %s: %s", e.Reason, e.Message)
		}
		return f
	}
	if d := s.Device; d != nil {
		if e := falseCondition(name(KindDevice, "", d.Name), d.Status.Conditions, v1alpha1.ConditionMediaUsable); e != nil {
			return brokenBy(owner, e)
		}
	}
	return s.waiting(owner, transition(p.Status.Conditions, v1alpha1.ConditionPlaced, p.CreationTimestamp.Time), "not carved yet")
}

// agentDead is the finding when the storage node's agent is gone or has just
// come back, nil when it is well or when nothing tells. The manager's word counts
// before the Lease, whose time is by the clock of another host.
func (s *Snapshot) agentDead() *Finding {
	node := s.targetNode()
	if node == "" {
		return nil
	}
	owner := Owner{Component: Agent, Node: node}
	object := name(KindTarget, "", node)
	var silent []Evidence
	if s.Target == nil && !s.unreadable(KindTarget) {
		f := broken(owner, object+" does not exist: its agent never reported", Evidence{Object: object, Reason: "NotFound"})
		return s.withoutAgent(f)
	}
	if s.Target != nil {
		e := falseCondition(object, s.Target.Status.Conditions, v1alpha1.ConditionReady)
		switch {
		case e != nil && e.Reason == v1alpha1.ReasonHeartbeatExpired:
			silent = append(silent, *e)
		case e != nil && e.Reason == v1alpha1.ReasonAgentStarting:
			f := s.waiting(owner, s.Target.CreationTimestamp.Time, "the agent starts: "+e.Message)
			if e.Since != nil {
				f = s.waiting(owner, *e.Since, "the agent starts: "+e.Message)
			}
			f.Evidence = append(f.Evidence, *e)
			return s.withoutAgent(f)
		}
	}
	if e := s.staleLease(node); e != nil {
		silent = append(silent, *e)
	}
	if len(silent) == 0 {
		return nil
	}
	if e := s.notRunning(owner); e != nil {
		silent = append(silent, *e)
	}
	if e := s.nodeNotReady(node); e != nil {
		silent = append(silent, *e)
	}
	message := fmt.Sprintf("the agent on node %s is silent", node)
	for i := range s.Attachments {
		a := &s.Attachments[i]
		e := conditionOf(name(KindAttachment, a.Namespace, a.Name), a.Status.Conditions, v1alpha1.ConditionAccessReady)
		if a.DeletionTimestamp != nil && e != nil && e.Reason == v1alpha1.ReasonStorageNodeSilent {
			message += fmt.Sprintf(", and access of node %s is not proven to be revoked", a.Spec.NodeID)
			silent = append(silent, *e)
		}
	}
	f := broken(owner, message, silent...)
	f.Reason = v1alpha1.ReasonHeartbeatExpired
	return s.withoutAgent(f)
}

// withoutAgent adds what works all the same.
func (s *Snapshot) withoutAgent(f Finding) *Finding {
	for _, pod := range s.consumers() {
		if mounted(pod) {
			f.Note = fmt.Sprintf("pod %s/%s has it mounted; I/O goes on as long as the target runs", pod.Namespace, pod.Name)
		}
	}
	return &f
}

func (s *Snapshot) staleLease(node string) *Evidence {
	lease := s.Lease
	if lease == nil || lease.Spec.RenewTime == nil {
		return nil
	}
	renewed := lease.Spec.RenewTime.Time
	stale := renewed.Add(v1alpha1.LeaseStaleSeconds * time.Second)
	if s.Now.Before(stale) {
		return nil
	}
	return &Evidence{
		Object: name(KindLease, lease.Namespace, v1alpha1.LeaseNamePrefix+node), Reason: v1alpha1.ReasonHeartbeatExpired,
		Message: fmt.Sprintf("renewed last at %s, %s ago", renewed.UTC().Format(time.RFC3339), Age(s.Now.Sub(renewed))), Since: at(stale),
	}
}

// judgeExport judges whether the target serves the slice.
func judgeExport(s *Snapshot) Finding {
	if f := s.provisioningFailed(Export); f != nil {
		return *f
	}
	p := s.Partition
	if p == nil {
		return s.partitionMissing()
	}
	owner := Owner{Component: Agent, Node: p.Spec.NodeName}
	object := name(KindPartition, p.Namespace, p.Name)
	if e := falseCondition(object, p.Status.Conditions, v1alpha1.ConditionExported); e != nil {
		return brokenBy(owner, e)
	}
	if meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionExported) {
		portals := make([]string, 0, len(p.Status.Portals))
		for _, portal := range p.Status.Portals {
			portals = append(portals, portalText(portal))
		}
		return passed("%s at %s", p.Status.NQN, strings.Join(portals, ", "))
	}
	return s.waiting(owner, transition(p.Status.Conditions, v1alpha1.ConditionProvisioned, p.CreationTimestamp.Time), "not exported yet")
}

func portalText(p v1alpha1.Portal) string {
	address := p.Address
	if strings.Contains(address, ":") {
		address = "[" + address + "]"
	}
	return fmt.Sprintf("%s://%s:%d", p.Transport, address, p.Port)
}

// targetNode is the storage node of the volume; empty when it is not known.
func (s *Snapshot) targetNode() string {
	if s.Partition == nil {
		return ""
	}
	return s.Partition.Spec.NodeName
}

// nodeNotReady is evidence that Kubernetes holds the node for not ready.
func (s *Snapshot) nodeNotReady(node string) *Evidence {
	n := s.node(node)
	if n == nil {
		return nil
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return &Evidence{
				Object: name(KindNode, "", node), Condition: "Ready=" + string(c.Status), Reason: c.Reason, Message: c.Message, Since: at(c.LastTransitionTime.Time),
			}
		}
	}
	return nil
}
