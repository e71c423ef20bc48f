package partition

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
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// concurrency is how many partitions are worked on at once. Changes of one drive
// queue up behind its lock, and a deletion may hold that for minutes.
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
		Named("partition").
		// Our own status patches do not wake us; a deletion raises the generation.
		For(&v1alpha1.NVMePartition{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, abandoned()))).
		Watches(&v1alpha1.NVMeDevice{}, handler.EnqueueRequestsFromMapFunc(r.ofDevice), builder.WithPredicates(deviceChanged())).
		// An attachment that goes lets a deletion proceed; one that went without its
		// finalizer is taken off the target.
		Watches(&v1alpha1.NVMeVolumeAttachment{}, handler.EnqueueRequestsFromMapFunc(ofAttachment), builder.WithPredicates(onlyDeletes())).
		// A sibling that goes may leave the space that a growth needs.
		Watches(&v1alpha1.NVMePartition{}, handler.EnqueueRequestsFromMapFunc(r.waitingForSpace), builder.WithPredicates(onlyDeletes())).
		WatchesRawSource(source.Channel(check.Broken(v1alpha1.KindNVMePartition), &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency, RateLimiter: backoff.New()}).
		Complete(r)
}

// ofDevice wakes the partitions on a drive whose object changed, and lets their
// slices be looked for anew.
func (r *Reconciler) ofDevice(ctx context.Context, o client.Object) []reconcile.Request {
	serial := o.(*v1alpha1.NVMeDevice).Spec.SerialNumber
	r.Locators.Forget(serial)
	return r.onDrive(ctx, serial, func(*v1alpha1.NVMePartition) bool { return true })
}

// waitingForSpace wakes the siblings of a partition that could not grow.
func (r *Reconciler) waitingForSpace(ctx context.Context, o client.Object) []reconcile.Request {
	return r.onDrive(ctx, o.(*v1alpha1.NVMePartition).Spec.ParentDeviceSerialNumber, func(p *v1alpha1.NVMePartition) bool {
		return p.Spec.Size > p.Status.AllocatedCapacity && meta.IsStatusConditionFalse(p.Status.Conditions, v1alpha1.ConditionResized)
	})
}

func (r *Reconciler) onDrive(ctx context.Context, serial string, chosen func(*v1alpha1.NVMePartition) bool) []reconcile.Request {
	all, err := volume.OnDrive(ctx, r.Client, serial)
	if err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range all {
		if p := &all[i]; chosen(p) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)})
		}
	}
	return out
}

// deviceChanged lets through what a partition depends on: that the drive is
// there, is usable, and whose it is.
func deviceChanged() predicate.Predicate {
	type view struct {
		claim      *v1alpha1.ObjectReference
		backend    v1alpha1.ActiveBackend
		conditions map[string]string
	}
	look := func(d *v1alpha1.NVMeDevice) view {
		v := view{claim: d.Status.ClaimRef, backend: d.Status.ActiveBackend, conditions: map[string]string{}}
		for _, c := range d.Status.Conditions {
			v.conditions[c.Type] = string(c.Status) + "/" + c.Reason
		}
		return v
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := look(e.ObjectOld.(*v1alpha1.NVMeDevice)), look(e.ObjectNew.(*v1alpha1.NVMeDevice))
		return !equality.Semantic.DeepEqual(before.claim, after.claim) || before.backend != after.backend ||
			!equality.Semantic.DeepEqual(before.conditions, after.conditions)
	}}
}

func ofAttachment(_ context.Context, o client.Object) []reconcile.Request {
	ref := o.(*v1alpha1.NVMeVolumeAttachment).Spec.VolumeRef
	if ref.Kind != v1alpha1.KindNVMePartition {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}}}
}

// abandoned lets through that somebody gives up what is on a missing drive.
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

// deviceName is the name of the object of a drive of this node.
func (r *Reconciler) deviceName(serial string) string { return identity.DeviceName(r.NodeName, serial) }
