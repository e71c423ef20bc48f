package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// selectedNode is the annotation by which the scheduler asks for a volume that
// waits for its first consumer.
const selectedNode = "volume.kubernetes.io/selected-node"

// judgeClaim judges whether the claim is asked for and answered.
func judgeClaim(s *Snapshot) Finding {
	c := s.Claim
	switch {
	case c != nil && c.Status.Phase == corev1.ClaimLost:
		return broken(Owner{Component: User}, fmt.Sprintf("the claim lost its PersistentVolume %s", c.Spec.VolumeName), claimEvidence(c, "Lost"))
	case c != nil && c.Status.Phase == corev1.ClaimBound:
		return judgeBound(s)
	case c != nil:
		return judgePending(s)
	case s.unreadable(KindClaim):
		return unknown(KindClaim)
	case s.Partition != nil:
		return judgeClaimless(s)
	}
	return broken(Owner{Component: User}, fmt.Sprintf("PersistentVolumeClaim %s/%s does not exist", s.Subject.Namespace, s.Subject.Name),
		Evidence{Object: name(KindClaim, s.Subject.Namespace, s.Subject.Name), Reason: "NotFound"})
}

func judgeBound(s *Snapshot) Finding {
	c, v := s.Claim, s.Volume
	if v == nil && !s.unreadable(KindVolume) {
		return broken(Owner{Component: User}, fmt.Sprintf("PersistentVolume %s of the claim does not exist", c.Spec.VolumeName),
			Evidence{Object: name(KindVolume, "", c.Spec.VolumeName), Reason: "NotFound"})
	}
	if v != nil {
		if _, err := s.handle(); err != nil {
			return broken(Owner{Component: User}, fmt.Sprintf("PersistentVolume %s: volumeHandle: %v", v.Name, err),
				Evidence{Object: name(KindVolume, "", v.Name), Reason: "InvalidHandle", Message: err.Error(), Since: at(v.CreationTimestamp.Time)})
		}
	}
	size := c.Status.Capacity[corev1.ResourceStorage]
	return passed("bound to %s of %s", c.Spec.VolumeName, size.String())
}

func judgePending(s *Snapshot) Finding {
	c, p := s.Claim, s.Partition
	if f := s.provisioningFailed(Claim); f != nil {
		return *f
	}
	if p != nil && p.DeletionTimestamp == nil {
		if meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionExported) {
			return s.waiting(Owner{Component: CSIController}, transition(p.Status.Conditions, v1alpha1.ConditionExported, c.CreationTimestamp.Time),
				"the volume is exported and the claim is not bound to it yet")
		}
		return passed("asked for as NVMePartition %s", p.Name)
	}
	if e, _ := s.provisioning(); e != nil {
		return passed("asked for, and refused later")
	}
	class := ""
	if c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	switch {
	case class == "":
		return broken(Owner{Component: User}, "the claim names no StorageClass and the cluster has no default one", claimEvidence(c, "NoStorageClass"))
	case s.Class == nil && !s.unreadable(KindClass):
		return broken(Owner{Component: User}, fmt.Sprintf("StorageClass %s does not exist", class), claimEvidence(c, "StorageClassNotFound"))
	case s.Class != nil && lateBinding(s.Class) && c.Annotations[selectedNode] == "":
		return judgeUnscheduled(s)
	}
	return s.waiting(Owner{Component: CSIController}, c.CreationTimestamp.Time, "the volume is not asked for yet")
}

func lateBinding(class *storagev1.StorageClass) bool {
	return class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// judgeUnscheduled judges a claim that waits for its first pod.
func judgeUnscheduled(s *Snapshot) Finding {
	pods := s.consumers()
	if len(pods) == 0 {
		return Finding{State: Unused, Reason: "WaitForFirstConsumer", Message: "waits for a pod that uses it"}
	}
	return s.scheduling(pods[0])
}

// scheduling is the finding on a pod without a node.
func (s *Snapshot) scheduling(pod *corev1.Pod) Finding {
	owner := Owner{Component: Scheduler}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			f := broken(owner, fmt.Sprintf("pod %s/%s is not scheduled: %s", pod.Namespace, pod.Name, c.Message), Evidence{
				Object: name(KindPod, pod.Namespace, pod.Name), Condition: "PodScheduled=False", Reason: c.Reason, Message: c.Message,
				Since: at(c.LastTransitionTime.Time),
			})
			f.Next = describePod(pod)
			return f
		}
	}
	f := s.waiting(owner, pod.CreationTimestamp.Time, fmt.Sprintf("pod %s/%s is not scheduled yet", pod.Namespace, pod.Name))
	f.Next = describePod(pod)
	return f
}

// judgeClaimless judges a partition that no claim stands for: one that is being
// deleted, or that was left behind.
func judgeClaimless(s *Snapshot) Finding {
	p := s.Partition
	owner := Owner{Component: Manager}
	if p.Spec.NodeName != "" {
		owner = Owner{Component: Agent, Node: p.Spec.NodeName}
	}
	object := name(KindPartition, p.Namespace, p.Name)
	if p.DeletionTimestamp != nil {
		if f := s.agentDead(); f != nil {
			return *f
		}
		if f := s.revocation(); f != nil {
			return *f
		}
		f := s.waiting(owner, p.DeletionTimestamp.Time, object+" is being deleted")
		if e := falseCondition(object, p.Status.Conditions, v1alpha1.ConditionExported); e != nil && (e.Reason == v1alpha1.ReasonDeleting || e.Reason == v1alpha1.ReasonHostsConnected) {
			f.Evidence = append(f.Evidence, *e)
			f.Message += ": " + e.Message
		}
		return f
	}
	switch {
	case s.Volume != nil && s.Volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		return judgeReleased(s)
	case s.Volume != nil || s.unreadable(KindVolume):
		return Finding{State: Unused, Reason: "Released", Message: "kept by its PersistentVolume; no claim uses it"}
	}
	return s.waiting(Owner{Component: CSIController}, p.CreationTimestamp.Time, object+" has no PersistentVolume and no claim")
}

// judgeReleased judges a volume whose claim is gone and that is to be deleted.
func judgeReleased(s *Snapshot) Finding {
	v, owner := s.Volume, Owner{Component: CSIController}
	since := v.CreationTimestamp.Time
	if t := v.Status.LastPhaseTransitionTime; t != nil {
		since = t.Time
	}
	if e := s.latest(v.UID, func(e *corev1.Event) bool { return e.Reason == "VolumeFailedDelete" }); e != nil {
		return brokenByEvent(owner, e)
	}
	return s.waiting(owner, since, fmt.Sprintf("PersistentVolume %s is %s and is to be deleted", v.Name, v.Status.Phase))
}

// handle is the volume's handle as its PersistentVolume has it.
func (s *Snapshot) handle() (handle.Handle, error) {
	if s.Volume.Spec.CSI == nil {
		return handle.Handle{}, fmt.Errorf("%w: the volume is not of a CSI driver", handle.ErrMalformed)
	}
	return handle.Parse(s.Volume.Spec.CSI.VolumeHandle)
}

// volumeName is the name of the PersistentVolume; empty when there is none.
func (s *Snapshot) volumeName() string {
	switch {
	case s.Volume != nil:
		return s.Volume.Name
	case s.Claim != nil:
		return s.Claim.Spec.VolumeName
	}
	return ""
}

func claimEvidence(c *corev1.PersistentVolumeClaim, reason string) Evidence {
	return Evidence{Object: name(KindClaim, c.Namespace, c.Name), Reason: reason, Message: "phase " + string(c.Status.Phase), Since: at(c.CreationTimestamp.Time)}
}

func describePod(pod *corev1.Pod) string {
	return fmt.Sprintf("kubectl -n %s describe pod %s", pod.Namespace, pod.Name)
}
