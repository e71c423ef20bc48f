package report

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// SetupWithManager registers the reporter. changed wakes it: whoever sends on it
// says that hardware or the agent's readiness may have changed; it may be nil.
func (r *Reporter) SetupWithManager(mgr ctrl.Manager, changed <-chan struct{}) error {
	wake := make(chan event.GenericEvent)
	if err := mgr.Add(&waker{node: r.NodeName, changed: changed, wake: wake}); err != nil {
		return err
	}
	toNode := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{r.request()}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("report").
		// The manager's Ready=False of an agent that came back has to go.
		Watches(&v1alpha1.RDMAStorageNode{}, toNode, builder.WithPredicates(nodeChanged())).
		Watches(&v1alpha1.NVMeDevice{}, toNode, builder.WithPredicates(deviceChanged())).
		WatchesRawSource(source.Channel(wake, toNode)).
		Complete(r)
}

// nodeChanged leaves out the capacity, which changes with every placement.
func nodeChanged() predicate.Predicate {
	ready := func(o client.Object) *metav1.Condition {
		return meta.FindStatusCondition(o.(*v1alpha1.RDMAStorageNode).Status.Conditions, v1alpha1.ConditionReady)
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			!equality.Semantic.DeepEqual(ready(e.ObjectOld), ready(e.ObjectNew))
	}}
}

// deviceChanged lets through a claim that comes or goes, and what somebody else
// did to the object.
func deviceChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // ours
		UpdateFunc: func(e event.UpdateEvent) bool {
			a, b := e.ObjectOld.(*v1alpha1.NVMeDevice), e.ObjectNew.(*v1alpha1.NVMeDevice)
			return !equality.Semantic.DeepEqual(a.Status.ClaimRef, b.Status.ClaimRef) || a.Generation != b.Generation
		},
	}
}

// waker asks for the first look, and for one more with each change.
type waker struct {
	node    string
	changed <-chan struct{}
	wake    chan<- event.GenericEvent
}

// Start implements manager.Runnable.
func (w *waker) Start(ctx context.Context) error {
	now := event.GenericEvent{Object: &v1alpha1.RDMAStorageNode{ObjectMeta: metav1.ObjectMeta{Name: w.node}}}
	for {
		select {
		case w.wake <- now:
		case <-ctx.Done():
			return nil
		}
		select {
		case _, open := <-w.changed:
			if !open {
				w.changed = nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}
