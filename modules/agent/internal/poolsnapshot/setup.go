package poolsnapshot

import (
	"context"
	"time"

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

// concurrency is how many snapshots are worked on at once. Changes of one pool queue
// up behind its lock.
const concurrency = 8

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Delay == nil {
		r.Delay = jitter.HalfToFull(time.Minute)
	}
	if err := r.validate(); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("poolsnapshot").
		// Our own status patches do not wake us; a deletion raises the generation.
		For(&v1alpha1.Snapshot{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&v1alpha1.Volume{}, handler.EnqueueRequestsFromMapFunc(r.ofVolume), builder.WithPredicates(made())).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency, RateLimiter: backoff.New()}).
		Complete(r)
}

// ofVolume wakes the snapshots that wait for a volume: to be taken of it, or to go
// once it is made of them.
func (r *Reconciler) ofVolume(ctx context.Context, o client.Object) []reconcile.Request {
	var all v1alpha1.SnapshotList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil
	}
	restored := o.(*v1alpha1.Volume).Spec.SourceSnapshot
	var out []reconcile.Request
	for i := range all.Items {
		s := &all.Items[i]
		if s.Spec.Source.UID == o.GetUID() && s.Status.BackendGUID == "" || restored != nil && restored.UID == s.UID && s.DeletionTimestamp != nil {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s)})
		}
	}
	return out
}

// made lets through that a volume has its zvol now, or is gone.
func made() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.(*v1alpha1.Volume).Status.DatasetGUID != e.ObjectNew.(*v1alpha1.Volume).Status.DatasetGUID
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
