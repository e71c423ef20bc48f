package access

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
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
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// concurrency is how many attachments are worked on at once.
const concurrency = 16

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Delay == nil {
		r.Delay = jitter.HalfToFull(2 * targetTimeout)
	}
	if err := r.validate(); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("access").
		For(&v1alpha1.NVMeVolumeAttachment{}, builder.WithPredicates(attachmentChanged())).
		Watches(&v1alpha1.NVMePartition{}, handler.EnqueueRequestsFromMapFunc(r.ofVolume), builder.WithPredicates(exportChanged())).
		Watches(&v1alpha1.Volume{}, handler.EnqueueRequestsFromMapFunc(r.ofVolume), builder.WithPredicates(exportChanged())).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency, RateLimiter: backoff.New()}).
		Complete(r)
}

// attachmentChanged leaves out our own status patches. A deletion raises the
// generation. What distort-manager says of a silent agent is taken back by the
// agent's next word.
func attachmentChanged() predicate.Predicate {
	return predicate.Or(
		predicate.GenerationChangedPredicate{},
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*v1alpha1.NVMeVolumeAttachment), e.ObjectNew.(*v1alpha1.NVMeVolumeAttachment)
			return !equality.Semantic.DeepEqual(before.Finalizers, after.Finalizers) ||
				!equality.Semantic.DeepEqual(before.Status.Filesystem, after.Status.Filesystem) ||
				calledSilent(after) && !calledSilent(before)
		}},
	)
}

func calledSilent(a *v1alpha1.NVMeVolumeAttachment) bool {
	c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionAccessReady)
	return c != nil && c.Reason == v1alpha1.ReasonStorageNodeSilent
}

// exportChanged lets through what an attachment waits for.
func exportChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(v1alpha1.Slice), e.ObjectNew.(v1alpha1.Slice)
		return meta.IsStatusConditionTrue(before.GetConditions(), v1alpha1.ConditionExported) !=
			meta.IsStatusConditionTrue(after.GetConditions(), v1alpha1.ConditionExported) ||
			before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero()
	}}
}

func (r *Reconciler) ofVolume(ctx context.Context, o client.Object) []reconcile.Request {
	attachments, err := volume.Attachments(ctx, r.Client, o.GetUID())
	if err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range attachments {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&attachments[i])})
	}
	return out
}
