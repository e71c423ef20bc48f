package explain

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// judgeConnection judges whether the pods' hosts are connected and found the
// device. Nothing in the API shows a connection, so it counts as made until the
// kubelet reports otherwise.
func judgeConnection(s *Snapshot) Finding { return s.forEach(s.consumers(), s.connectionOf) }

func (s *Snapshot) connectionOf(pod *corev1.Pod) Finding {
	if mounted(pod) {
		return passed("node %s is connected", pod.Spec.NodeName)
	}
	if f := s.mountingFailed(pod, Connection); f != nil {
		return *f
	}
	owner := Owner{Component: CSINode, Node: pod.Spec.NodeName}
	if e := s.notRunning(owner); e != nil {
		return broken(owner, fmt.Sprintf("the csi node on node %s does not run: %s", pod.Spec.NodeName, e.Message), *e)
	}
	return passed("node %s reports nothing against it", pod.Spec.NodeName)
}

// judgeMount judges whether the volume is in the pods.
func judgeMount(s *Snapshot) Finding { return s.forEach(s.consumers(), s.mountOf) }

func (s *Snapshot) mountOf(pod *corev1.Pod) Finding {
	node := pod.Spec.NodeName
	if mounted(pod) {
		return passed("pod %s/%s on node %s has it", pod.Namespace, pod.Name, node)
	}
	if f := s.mountingFailed(pod, Mount); f != nil {
		return *f
	}
	owner := Owner{Component: Kubelet, Node: node}
	if e := s.nodeNotReady(node); e != nil {
		return broken(owner, fmt.Sprintf("node %s is not ready, and pod %s/%s not mounted", node, pod.Namespace, pod.Name), *e)
	}
	f := s.waiting(owner, s.admittedAt(pod), fmt.Sprintf("pod %s/%s is not mounted yet", pod.Namespace, pod.Name))
	f.Next = describePod(pod)
	return f
}

// admittedAt is when the kubelet could begin to mount.
func (s *Snapshot) admittedAt(pod *corev1.Pod) time.Time {
	since := scheduledAt(pod)
	if own, _ := s.attachmentOf(pod.Spec.NodeName); own != nil {
		if admitted := transition(own.Status.Conditions, v1alpha1.ConditionAccessReady, since); admitted.After(since) {
			since = admitted
		}
	}
	return since
}

// mounted tells whether the kubelet has mounted the pod's volumes: it makes the
// sandbox, and starts containers, only after that.
func mounted(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodRunning {
		return true
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	for _, all := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range all {
			if c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil {
				return true
			}
		}
	}
	return false
}
