package flow

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// moveTimeout bounds the time in which a Deployment's pod starts on another node.
const moveTimeout = 4 * time.Minute

// outOfService is what an administrator puts on a node that is certain to be off.
var outOfService = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}

// Evacuate moves the product's controllers, which run anywhere, away from a node
// that is about to lose its power. Its own pods of DaemonSets stay.
func (f *Flow) Evacuate(ctx context.Context, node string) error {
	cordon := func(ctx context.Context, off bool) error {
		return f.changeNode(ctx, node, func(n *corev1.Node) { n.Spec.Unschedulable = off })
	}
	if err := cordon(ctx, true); err != nil {
		return err
	}
	before, err := f.controllers(ctx)
	if err != nil {
		return err
	}
	for _, pod := range before {
		if pod.Spec.NodeName == node {
			if err := f.client.Delete(ctx, &pod); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("move pod %s away from node %s: %w", pod.Name, node, err)
			}
		}
	}
	err = Eventually(ctx, "the controllers run on other nodes than "+node, moveTimeout, func(ctx context.Context) (string, error) {
		now, err := f.controllers(ctx)
		if err != nil {
			return "", err
		}
		var missing []string
		for _, was := range before {
			if !slices.ContainsFunc(now, func(p corev1.Pod) bool {
				return metav1.GetControllerOf(&p).UID == metav1.GetControllerOf(&was).UID && p.Spec.NodeName != node && podReady(&p)
			}) {
				missing = append(missing, was.Name)
			}
		}
		return strings.Join(missing, ", "), nil
	})
	if err != nil {
		return err
	}
	return cordon(ctx, false)
}

// controllers are the product's pods of Deployments.
func (f *Flow) controllers(ctx context.Context) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := f.client.List(ctx, list, client.InNamespace(v1alpha1.DefaultNamespace)); err != nil {
		return nil, fmt.Errorf("list the product's pods: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		owner := metav1.GetControllerOf(&p)
		return owner == nil || owner.Kind != "ReplicaSet"
	}), nil
}

// PutOutOfService taints a node that is off, so that Kubernetes takes its pods and
// volumes elsewhere without waiting for it.
func (f *Flow) PutOutOfService(ctx context.Context, node string) error {
	return f.changeNode(ctx, node, func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, outOfService) })
}

// PutInService takes the taint back.
func (f *Flow) PutInService(ctx context.Context, node string) error {
	return f.changeNode(ctx, node, func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&outOfService) })
	})
}

// changeNode patches what is an administrator's of a node, whatever else changes.
func (f *Flow) changeNode(ctx context.Context, name string, change func(*corev1.Node)) error {
	return Eventually(ctx, "node "+name+" is changed", time.Minute, func(ctx context.Context) (string, error) {
		node := &corev1.Node{}
		if err := f.client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return "", err
		}
		base := client.MergeFromWithOptions(node.DeepCopy(), client.MergeFromWithOptimisticLock{})
		change(node)
		err := f.client.Patch(ctx, node, base)
		if apierrors.IsConflict(err) {
			return err.Error(), nil
		}
		return "", err
	})
}

// WaitNode waits until a node is Ready, or is not.
func (f *Flow) WaitNode(ctx context.Context, name string, ready bool, timeout time.Duration) error {
	return Eventually(ctx, fmt.Sprintf("node %s Ready=%t", name, ready), timeout, func(ctx context.Context) (string, error) {
		node := &corev1.Node{}
		if err := f.client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return "", err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				if (c.Status == corev1.ConditionTrue) == ready {
					return "", nil
				}
				return fmt.Sprintf("it is %s: %s", c.Status, c.Message), nil
			}
		}
		return "it never said", nil
	})
}

func podReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
