package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Component is who acts at a boundary. DISTORT's own are named as their pods are
// labelled.
type Component string

// Components.
const (
	Manager       Component = "manager"
	Agent         Component = "agent"
	CSIController Component = "csi-controller"
	CSINode       Component = "csi-node"
	Kubelet       Component = "kubelet"
	Scheduler     Component = "scheduler"
	AttachDetach  Component = "attach-detach-controller"
	// User is who wrote the claim, its StorageClass or the pod.
	User Component = "user"
)

// Labels of DISTORT's own pods.
const (
	NameLabel      = "app.kubernetes.io/name"
	NameValue      = "distort"
	ComponentLabel = "app.kubernetes.io/component"
)

var titles = map[Component]string{CSIController: "csi controller", CSINode: "csi node", AttachDetach: "attach-detach controller of Kubernetes"}

// Owner is who must do something next.
type Owner struct {
	Component Component `json:"component"`
	// Node is where it runs, for a component that runs on every node.
	Node string `json:"node,omitempty"`
	// Pod is its pod in the driver's namespace, when there is one.
	Pod string `json:"pod,omitempty"`
}

// String is "agent on node storage-a (pod distort-agent-x7k2p)".
func (o Owner) String() string {
	text := titles[o.Component]
	if text == "" {
		text = string(o.Component)
	}
	if o.Node != "" {
		text += " on node " + o.Node
	}
	if o.Pod != "" {
		text += " (pod " + o.Pod + ")"
	}
	return text
}

// ours tells whether the component is one of DISTORT's.
func (o Owner) ours() bool {
	switch o.Component {
	case Manager, Agent, CSIController, CSINode:
		return true
	}
	return false
}

// perNode tells whether the component runs on every node.
func (o Owner) perNode() bool { return o.Component == Agent || o.Component == CSINode }

// podOf is the pod of one of DISTORT's components: one that is ready, else any.
func (s *Snapshot) podOf(o Owner) *corev1.Pod {
	var found *corev1.Pod
	for i := range s.Components {
		p := &s.Components[i]
		if p.Labels[ComponentLabel] != string(o.Component) || o.Node != "" && p.Spec.NodeName != o.Node || o.Node == "" && o.perNode() {
			continue
		}
		if found == nil || podReady(p) && !podReady(found) {
			found = p
		}
	}
	return found
}

// notRunning is evidence that a component of DISTORT cannot do its part, nil
// when it can or when nothing tells.
func (s *Snapshot) notRunning(o Owner) *Evidence {
	if !o.ours() || o.perNode() && o.Node == "" || s.unreadable(KindComponent) {
		return nil
	}
	pod := s.podOf(o)
	switch {
	case pod == nil && o.Node != "":
		return &Evidence{Object: "Node " + o.Node, Reason: "NotRunning", Message: fmt.Sprintf("no pod of the %s runs there", o.Component)}
	case pod == nil:
		return &Evidence{Object: "Namespace " + s.Namespace, Reason: "NotRunning", Message: fmt.Sprintf("no pod of the %s runs there", o.Component)}
	case podReady(pod):
		return nil
	}
	reason, message := podProblem(pod)
	e := &Evidence{Object: name(KindPod, pod.Namespace, pod.Name), Condition: "Ready=False", Reason: reason, Message: message}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			e.Since = at(c.LastTransitionTime.Time)
		}
	}
	return e
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// podProblem says why a pod is not ready.
func podProblem(pod *corev1.Pod) (reason, message string) {
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			return w.Reason, fmt.Sprintf("container %s waits: %s", c.Name, w.Message)
		}
		if t := c.State.Terminated; t != nil {
			return t.Reason, fmt.Sprintf("container %s ended with exit code %d", c.Name, t.ExitCode)
		}
	}
	return "NotReady", "phase " + string(pod.Status.Phase)
}

// next is the command that shows what the owner does.
func (s *Snapshot) next(o Owner) string {
	switch {
	case o.Pod != "":
		return fmt.Sprintf("kubectl -n %s logs %s --all-containers --tail=50", s.Namespace, o.Pod)
	case o.ours() && o.Node != "":
		return fmt.Sprintf("kubectl -n %s get pods -o wide -l %s=%s --field-selector spec.nodeName=%s", s.Namespace, ComponentLabel, o.Component, o.Node)
	case o.ours():
		return fmt.Sprintf("kubectl -n %s get pods -o wide -l %s=%s", s.Namespace, ComponentLabel, o.Component)
	case o.Component == Kubelet && o.Node != "":
		return "kubectl describe node " + o.Node
	case s.Claim != nil:
		return fmt.Sprintf("kubectl -n %s describe pvc %s", s.Claim.Namespace, s.Claim.Name)
	}
	return ""
}
