package poolvolume

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/distort-io/distort/modules/agent/internal/backoff"
	"github.com/distort-io/distort/modules/agent/internal/jitter"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// concurrency is how many volumes are worked on at once. Changes of one pool queue
// up behind its lock.
const concurrency = 16

// SetupWithManager registers the reconciler. The check tells it of exports that
// are not as they should be.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, check *volume.Check) error {
	if r.Delay == nil {
		r.Delay = jitter.HalfToFull(2 * targetTimeout)
	}
	if err := r.validate(); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("poolvolume").
		// Our own status patches do not wake us; a deletion raises the generation.
		For(&v1alpha1.Volume{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, abandoned()))).
		// An attachment that goes lets a deletion proceed; one that went without its
		// finalizer is taken off the target.
		Watches(&v1alpha1.NVMeVolumeAttachment{}, handler.EnqueueRequestsFromMapFunc(ofAttachment), builder.WithPredicates(onlyDeletes())).
		Watches(&v1alpha1.StorageNode{}, handler.EnqueueRequestsFromMapFunc(r.waiting), builder.WithPredicates(poolsChanged())).
		// A snapshot that goes may be what a deletion waits for; one that was taken, a
		// volume that is made of it.
		Watches(&v1alpha1.Snapshot{}, handler.EnqueueRequestsFromMapFunc(r.ofSnapshot), builder.WithPredicates(snapshotChanged())).
		WatchesRawSource(source.Channel(check.Broken(v1alpha1.KindVolume), &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency, RateLimiter: backoff.New()}).
		Complete(r)
}

// waiting wakes the volumes that wait for their pool, or for a sample that
// contains them.
func (r *Reconciler) waiting(ctx context.Context, o client.Object) []reconcile.Request {
	if o.GetName() != r.NodeName {
		return nil
	}
	var all v1alpha1.VolumeList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range all.Items {
		v := &all.Items[i]
		if v.Spec.OwnerNode == r.NodeName && (v.Status.AccountedGeneration == 0 || v.DeletionTimestamp != nil ||
			!meta.IsStatusConditionTrue(v.Status.Conditions, v1alpha1.ConditionExported)) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(v)})
		}
	}
	return out
}

// ofSnapshot wakes the volumes that wait for a snapshot.
func (r *Reconciler) ofSnapshot(ctx context.Context, o client.Object) []reconcile.Request {
	var all v1alpha1.VolumeList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range all.Items {
		v := &all.Items[i]
		if of := v.Spec.SourceSnapshot; v.DeletionTimestamp != nil || of != nil && of.UID == o.GetUID() && v.Status.DatasetGUID == "" {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(v)})
		}
	}
	return out
}

// snapshotChanged lets through that a snapshot was taken, or is gone.
func snapshotChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.(*v1alpha1.Snapshot).Status.BackendGUID != e.ObjectNew.(*v1alpha1.Snapshot).Status.BackendGUID
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// poolsChanged lets through what volumes depend on.
func poolsChanged() predicate.Predicate {
	type view struct {
		declared   []v1alpha1.PoolGUID
		ready      map[v1alpha1.PoolGUID]bool
		generation map[v1alpha1.PoolGUID]int64
	}
	look := func(n *v1alpha1.StorageNode) view {
		v := view{n.Spec.AuthoritativePoolGUIDs, map[v1alpha1.PoolGUID]bool{}, map[v1alpha1.PoolGUID]int64{}}
		for _, p := range n.Status.Pools {
			v.ready[p.GUID], v.generation[p.GUID] = p.Ready, p.SampleGeneration
		}
		return v
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := look(e.ObjectOld.(*v1alpha1.StorageNode)), look(e.ObjectNew.(*v1alpha1.StorageNode))
		return !equality.Semantic.DeepEqual(before.declared, after.declared) || !equality.Semantic.DeepEqual(before.ready, after.ready) ||
			!equality.Semantic.DeepEqual(before.generation, after.generation)
	}}
}

func ofAttachment(_ context.Context, o client.Object) []reconcile.Request {
	ref := o.(*v1alpha1.NVMeVolumeAttachment).Spec.VolumeRef
	if ref.Kind != v1alpha1.KindVolume {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: ref.Name}}}
}

// abandoned lets through that somebody gives up what is on a missing pool.
func abandoned() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetAnnotations()[v1alpha1.AbandonDataAnnotation] != e.ObjectNew.GetAnnotations()[v1alpha1.AbandonDataAnnotation]
	}}
}

func onlyDeletes() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
