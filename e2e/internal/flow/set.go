package flow

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/e2e/internal/layout"
)

// CreateSet makes a StatefulSet of one pod, which Kubernetes makes again wherever
// it can: on a consumer, pod.Node if that one is there. It returns the pod's name.
func (f *Flow) CreateSet(ctx context.Context, pod Pod) (string, error) {
	labels := map[string]string{"app": pod.Name}
	spec := pod.spec()
	in := func(label, value string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: label, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}
	}
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{in(layout.RoleLabel, string(layout.Consumer))}},
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: in(corev1.LabelHostname, pod.Node)}},
	}}
	object := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: f.Namespace},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
	if err := f.client.Create(ctx, object); err != nil {
		return "", fmt.Errorf("make StatefulSet %s: %w", pod.Name, err)
	}
	return pod.Name + "-0", nil
}

// DeleteSet deletes a StatefulSet and waits until its pod is gone.
func (f *Flow) DeleteSet(ctx context.Context, name string) error {
	if err := f.deleteAndWait(ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: f.Namespace}}, goneTimeout); err != nil {
		return err
	}
	return f.waitGone(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name + "-0", Namespace: f.Namespace}}, goneTimeout)
}

// WaitRunning waits until a pod of that name runs on a node.
func (f *Flow) WaitRunning(ctx context.Context, name, node string, timeout time.Duration) error {
	return Eventually(ctx, fmt.Sprintf("pod %s runs on %s", name, node), timeout, func(ctx context.Context) (string, error) {
		pod := &corev1.Pod{}
		err := f.client.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: name}, pod)
		switch {
		case apierrors.IsNotFound(err):
			return "there is none", nil
		case err != nil:
			return "", err
		case pod.Spec.NodeName == node && podReady(pod):
			return "", nil
		}
		return fmt.Sprintf("on node %q, deleted %v: %s", pod.Spec.NodeName, pod.DeletionTimestamp, podState(pod)), nil
	})
}
