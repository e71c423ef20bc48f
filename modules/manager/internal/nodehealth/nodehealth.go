// Package nodehealth says of a storage node whose agent fell silent that it is
// not ready (design.md §3, RDMAStorageNode), and of the revocations that wait for
// this agent what is missing. The agent itself says that it is ready again.
package nodehealth

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/heartbeat"
	"github.com/distort-io/distort/modules/manager/internal/write"
)

// Reconciler sets Ready=False/HeartbeatExpired of RDMAStorageNodes.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Live reads from the API server, where silence must be certain.
	Live client.Reader
	// Heartbeats of the nodes.
	Heartbeats *heartbeat.Tracker
	// Clock is time.Now outside tests.
	Clock func() time.Time
	// Namespace of the agents' Leases.
	Namespace string
	// Recorder of events.
	Recorder events.EventRecorder
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	nodeOf := func(_ context.Context, lease client.Object) []reconcile.Request {
		node, isAgent := strings.CutPrefix(lease.GetName(), v1alpha1.LeaseNamePrefix)
		if !isAgent || lease.GetNamespace() != r.Namespace {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: node}}}
	}
	return ctrl.NewControllerManagedBy(mgr).Named("nodehealth").
		For(&v1alpha1.RDMAStorageNode{}).
		Watches(&coordinationv1.Lease{}, handler.EnqueueRequestsFromMapFunc(nodeOf)).
		Complete(r)
}

// Reconcile looks at one node and comes back when its heartbeat would expire.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	node := &v1alpha1.RDMAStorageNode{}
	if err := r.Client.Get(ctx, request.NamespacedName, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	ready := meta.FindStatusCondition(node.Status.Conditions, v1alpha1.ConditionReady)
	expired := ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == v1alpha1.ReasonHeartbeatExpired
	var message string
	// A process that was stopped for a while finds every node silent in its cache,
	// so the last word has the API server.
	for _, reader := range []client.Reader{r.Client, r.Live} {
		deadline, why, err := r.deadline(ctx, reader, node)
		if err != nil {
			return reconcile.Result{}, err
		}
		if left := deadline.Sub(r.Clock()); left > 0 {
			return reconcile.Result{RequeueAfter: left}, nil
		}
		if expired {
			return reconcile.Result{}, nil
		}
		message = why
	}
	return reconcile.Result{}, r.expire(ctx, node, message)
}

// deadline is when the node counts as gone, and what to say then. A node
// without Lease gets as long as one with a Lease, from its creation.
func (r *Reconciler) deadline(ctx context.Context, reader client.Reader, node *v1alpha1.RDMAStorageNode) (time.Time, string, error) {
	name := v1alpha1.LeaseNamePrefix + node.Name
	lease := &coordinationv1.Lease{}
	switch err := reader.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, lease); {
	case apierrors.IsNotFound(err):
		missing := fmt.Sprintf("Lease %s/%s does not exist", r.Namespace, name)
		if deadline, seen := r.Heartbeats.Deadline(node.Name); seen {
			return deadline, missing, nil
		}
		return node.CreationTimestamp.Add(heartbeat.Stale), missing, nil
	case err != nil:
		return time.Time{}, "", fmt.Errorf("read Lease %s/%s: %w", r.Namespace, name, err)
	}
	renewed := "never"
	if lease.Spec.RenewTime != nil {
		renewed = "at " + lease.Spec.RenewTime.UTC().Format(time.RFC3339)
	}
	message := fmt.Sprintf("Lease %s/%s was last renewed %s and counts for %s", r.Namespace, name, renewed, heartbeat.Stale)
	return r.Heartbeats.Observe(node.Name, lease), message, nil
}

// expire writes the condition. The agent writes conditions of the same list, so
// a write that does not know its latest is refused and made anew.
func (r *Reconciler) expire(ctx context.Context, node *v1alpha1.RDMAStorageNode, message string) error {
	base := node.DeepCopy()
	meta.SetStatusCondition(&node.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHeartbeatExpired,
		Message: message, ObservedGeneration: node.Generation,
	})
	if err := write.Status(ctx, r.Client, node, base); err != nil {
		if write.IgnoreLost(err) == nil {
			return nil
		}
		return fmt.Errorf("set storage node %s not ready: %w", node.Name, err)
	}
	log.FromContext(ctx).Info("heartbeat of storage node expired", "node", node.Name)
	r.Recorder.Eventf(node, nil, corev1.EventTypeWarning, v1alpha1.ReasonHeartbeatExpired, "Expire", "%s", message)
	return nil
}
