package whatif

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/gather"
)

// lossTimeout is the volume attribute that says how long an initiator tries to
// reconnect, in seconds; -1, the default, is for ever.
const lossTimeout = "ctrl-loss-tmo"

// DrainNode foretells a drain of a node and the time that it is down: for the
// volumes stored there, and for those that its pods use.
func DrainNode(i *gather.Inventory, now time.Time, node string) (*Plan, error) {
	if !known(i, node) {
		return nil, fmt.Errorf("node %s: %w: no Node, storage node or attachment has this name", node, ErrNotFound)
	}
	p := plan(i, "drain-node", node)
	for _, v := range stored(i, node, "") {
		p.affect(i, v, Stored, i.PodsOf(v), whileDown(i, v))
	}
	moved := map[*corev1.Pod]bool{}
	for j := range i.Attachments {
		a := &i.Attachments[j]
		v := partitionOf(i, a)
		if a.Spec.NodeID != node || v == nil {
			continue
		}
		pods := podsOn(i.PodsOf(v), node)
		p.affect(i, v, Used, pods, "stops, and starts elsewhere once access from here is proven revoked")
		if since, gone := silent(i, now, a.Spec.TargetNode); gone {
			p.refuse("NVMeVolumeAttachment "+a.Namespace+"/"+a.Name, "cannot be revoked: the agent on %s is silent since %s", a.Spec.TargetNode, since.UTC().Format(time.RFC3339))
		}
		for _, pod := range pods {
			moved[pod] = true
		}
	}
	for j := range i.Pods {
		if pod := &i.Pods[j]; moved[pod] {
			p.evict(i, pod)
		}
	}
	if len(stored(i, node, "")) > 0 {
		p.Notes = append(p.Notes, "draining moves no data: volumes stored on "+node+" stay there and are served until the node goes down")
	}
	return p.sorted(), nil
}

func known(i *gather.Inventory, node string) bool {
	return target(i, node) != nil || len(stored(i, node, "")) > 0 ||
		slices.ContainsFunc(i.Nodes, func(n corev1.Node) bool { return n.Name == node }) ||
		slices.ContainsFunc(i.Attachments, func(a v1alpha1.NVMeVolumeAttachment) bool { return a.Spec.NodeID == node })
}

// whileDown is what the users of a stored volume notice while its node is down.
func whileDown(i *gather.Inventory, v *v1alpha1.NVMePartition) string {
	seconds := -1
	if pv := i.VolumeOf(v); pv != nil {
		if n, err := strconv.Atoi(pv.Spec.CSI.VolumeAttributes[lossTimeout]); err == nil {
			seconds = n
		}
	}
	if seconds < 0 {
		return "I/O waits while the node is down, and goes on when it is back"
	}
	return fmt.Sprintf("I/O waits while the node is down, and fails after %d s", seconds)
}

// evict adds what kubectl drain refuses of a pod.
func (p *Plan) evict(i *gather.Inventory, pod *corev1.Pod) {
	object := "Pod " + pod.Namespace + "/" + pod.Name
	controller := metav1.GetControllerOf(pod)
	if controller == nil {
		p.refuse(object, "has no controller: kubectl drain refuses without --force, and nothing starts it again")
	}
	if controller != nil && controller.Kind == "DaemonSet" {
		p.refuse(object, "is of a DaemonSet: kubectl drain refuses without --ignore-daemonsets, and leaves it running")
	}
	if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil }) {
		p.refuse(object, "has an emptyDir: kubectl drain refuses without --delete-emptydir-data")
	}
	for j := range i.Budgets {
		b := &i.Budgets[j]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == pod.Namespace && b.Status.DisruptionsAllowed == 0 && selector.Matches(labels.Set(pod.Labels)) {
			p.refuse("PodDisruptionBudget "+b.Namespace+"/"+b.Name, "allows no eviction of pod %s now", pod.Name)
		}
	}
}
