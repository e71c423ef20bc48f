package explain

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// judgeAccess judges whether the target admits the hosts of the pods, and no
// host that is to be fenced.
func judgeAccess(s *Snapshot) Finding {
	if f := s.revocation(); f != nil {
		return *f
	}
	pods := s.consumers()
	if len(pods) == 0 && !s.unreadable(KindPod) {
		return Finding{State: Unused, Message: "ready; no pod uses it"}
	}
	return s.forEach(pods, s.accessOf)
}

// forEach judges every pod and returns the worst. Where no pod is known, it is
// because they could not be read.
func (s *Snapshot) forEach(pods []*corev1.Pod, judge func(*corev1.Pod) Finding) Finding {
	if len(pods) == 0 {
		return unknown(KindPod)
	}
	findings := make([]Finding, 0, len(pods))
	for _, pod := range pods {
		findings = append(findings, judge(pod))
	}
	return worst(findings)
}

// revocation is the finding on an attachment that is being withdrawn, nil when
// there is none.
func (s *Snapshot) revocation() *Finding {
	for i := range s.Attachments {
		a := &s.Attachments[i]
		if a.DeletionTimestamp == nil {
			continue
		}
		owner := Owner{Component: Agent, Node: a.Spec.TargetNode}
		object := name(KindAttachment, a.Namespace, a.Name)
		f := s.waiting(owner, a.DeletionTimestamp.Time, fmt.Sprintf("access of node %s is being withdrawn", a.Spec.NodeID))
		if e := falseCondition(object, a.Status.Conditions, v1alpha1.ConditionAccessReady); e != nil && e.Reason == v1alpha1.ReasonRevoking {
			f = brokenBy(owner, e)
		}
		return &f
	}
	return nil
}

func (s *Snapshot) accessOf(pod *corev1.Pod) Finding {
	node := pod.Spec.NodeName
	if node == "" {
		return s.scheduling(pod)
	}
	own, other := s.attachmentOf(node)
	switch {
	case own != nil:
		if f := s.admission(own); f != nil {
			return *f
		}
	case other != nil && s.singleWriter():
		return broken(Owner{Component: CSIController}, fmt.Sprintf("pod %s/%s is on node %s, and the target admits node %s", pod.Namespace, pod.Name, node, other.Spec.NodeID),
			Evidence{Object: name(KindAttachment, other.Namespace, other.Name), Reason: "HeldByAnotherNode", Message: "admits node " + other.Spec.NodeID, Since: at(other.CreationTimestamp.Time)})
	}
	if f := s.attached(pod); f != nil {
		return *f
	}
	switch {
	case own != nil:
	case s.Partition == nil:
		return unknown(KindPartition)
	case s.unreadable(KindAttachment):
		return unknown(KindAttachment)
	default:
		return s.waiting(Owner{Component: CSIController}, scheduledAt(pod), fmt.Sprintf("no NVMeVolumeAttachment of node %s", node))
	}
	if f := s.mountingFailed(pod, Access); f != nil {
		return *f
	}
	return passed("node %s is admitted", node)
}

// admission is the finding on an attachment that is not granted, nil when it is.
func (s *Snapshot) admission(a *v1alpha1.NVMeVolumeAttachment) *Finding {
	owner := Owner{Component: Agent, Node: a.Spec.TargetNode}
	object := name(KindAttachment, a.Namespace, a.Name)
	observed := a.Status.ObservedAttachmentID == a.Spec.AttachmentID
	var f Finding
	switch e := falseCondition(object, a.Status.Conditions, v1alpha1.ConditionAccessReady); {
	case observed && e != nil:
		if e.Reason == v1alpha1.ReasonVolumeMismatch {
			owner = Owner{Component: CSIController}
		}
		f = brokenBy(owner, e)
	case observed && meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.ConditionAccessReady):
		return nil
	default:
		f = s.waiting(owner, a.CreationTimestamp.Time, fmt.Sprintf("node %s is not admitted yet", a.Spec.NodeID))
	}
	return &f
}

// attached is the finding on a VolumeAttachment that Kubernetes has not marked
// attached, nil when it has or when nothing tells. Its name follows from the
// volume.
func (s *Snapshot) attached(pod *corev1.Pod) *Finding {
	if s.unreadable(KindVolumeAttachment) || s.Volume == nil && s.Partition == nil {
		return nil
	}
	var f Finding
	va := s.volumeAttachmentOf(pod.Spec.NodeName)
	switch {
	case va == nil:
		owner := Owner{Component: AttachDetach}
		if e := s.latest(pod.UID, func(e *corev1.Event) bool { return e.Reason == "FailedAttachVolume" }); e != nil {
			f = brokenByEvent(owner, e)
		} else {
			f = s.waiting(owner, scheduledAt(pod), fmt.Sprintf("the volume is not attached to node %s yet", pod.Spec.NodeName))
		}
		f.Next = describePod(pod)
	case va.Status.AttachError != nil && !va.Status.Attached:
		e := va.Status.AttachError
		f = broken(Owner{Component: CSIController}, plain(e.Message), Evidence{
			Object: name(KindVolumeAttachment, "", va.Name), Reason: codeIn(e.Message, "AttachError"), Message: e.Message, Since: at(e.Time.Time),
		})
	case !va.Status.Attached:
		f = s.waiting(Owner{Component: CSIController}, va.CreationTimestamp.Time, fmt.Sprintf("the volume is not attached to node %s yet", pod.Spec.NodeName))
	default:
		return nil
	}
	return &f
}

func (s *Snapshot) singleWriter() bool {
	if s.Partition == nil {
		return false
	}
	switch s.Partition.Spec.AccessMode {
	case v1alpha1.ReadWriteOnce, v1alpha1.ReadWriteOncePod:
		return true
	}
	return false
}

// scheduledAt is when the pod got its node.
func scheduledAt(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}
