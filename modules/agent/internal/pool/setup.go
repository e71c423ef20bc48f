package pool

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/distort-io/distort/modules/agent/internal/backoff"
	"github.com/distort-io/distort/modules/agent/internal/jitter"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// gather is how long the changes of volumes are gathered before their pools are
// looked at again.
const gather = time.Second

// SetupWithManager registers the reporter.
func (r *Reporter) SetupWithManager(mgr ctrl.Manager) error {
	if r.Delay == nil {
		r.Delay = jitter.HalfToFull(time.Minute)
	}
	request := func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{r.request()} }
	return ctrl.NewControllerManagedBy(mgr).
		Named("pool").
		For(&v1alpha1.StorageNode{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(request), builder.WithPredicates(readinessChanged())).
		Watches(&v1alpha1.Volume{}, r.later(), builder.WithPredicates(accountingChanged())).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: backoff.New()}).
		Complete(r)
}

func (r *Reporter) request() reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: r.NodeName}}
}

// later asks for a look a little later, so that volumes that are made together
// cost one.
func (r *Reporter) later() handler.EventHandler {
	soon := func(q workqueue.TypedRateLimitingInterface[reconcile.Request]) { q.AddAfter(r.request(), gather) }
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			soon(q)
		},
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			soon(q)
		},
	}
}

// accountingChanged lets through that a volume waits for a sample, or is gone.
func accountingChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*v1alpha1.Volume), e.ObjectNew.(*v1alpha1.Volume)
			return before.Status.AccountedGeneration != after.Status.AccountedGeneration
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// readinessChanged leaves out the heartbeats of a node.
func readinessChanged() predicate.Predicate {
	ready := func(o client.Object) corev1.ConditionStatus {
		for _, c := range o.(*corev1.Node).Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status
			}
		}
		return ""
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !equality.Semantic.DeepEqual(ready(e.ObjectOld), ready(e.ObjectNew))
	}}
}
