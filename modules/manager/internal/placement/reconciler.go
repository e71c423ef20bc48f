package placement

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/lag"
	"github.com/distort-io/distort/modules/manager/internal/metrics"
	"github.com/distort-io/distort/modules/manager/internal/telemetry"
	"github.com/distort-io/distort/modules/manager/internal/write"
)

// How long a change of the inventory may wait for others before the partitions
// that found no drive are looked at again: for a new decision, and for a new
// reason.
const (
	retryDelay  = 100 * time.Millisecond
	reasonDelay = 2 * time.Second
)

// Reconciler places NVMePartitions: one write when it succeeds, one when it
// first fails or fails for another reason, none otherwise.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Ledger decides.
	Ledger *Ledger
	// Recorder of events.
	Recorder events.EventRecorder
	// Tracer makes spans of what was done; nil makes none.
	Tracer *telemetry.Tracer

	lag lag.Tracker
	// began is when the partitions were decided for whose reservation is on the way.
	began sync.Map
}

// workers is how many partitions are written at once. The decisions are made one
// by one in the Ledger.
const workers = 4

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	unplaced := predicate.NewPredicateFuncs(func(o client.Object) bool {
		p, ok := o.(*v1alpha1.NVMePartition)
		return ok && p.Spec.NodeName == ""
	})
	waiting := func(matters func(Change) bool) func(Change) []reconcile.Request {
		return func(change Change) []reconcile.Request {
			if !matters(change) {
				return nil
			}
			var requests []reconcile.Request
			for _, key := range r.Ledger.Waiting() {
				requests = append(requests, reconcile.Request{NamespacedName: key})
			}
			return requests
		}
	}
	now := func(change Change) []reconcile.Request {
		requests := make([]reconcile.Request, 0, len(change.Decide))
		for _, key := range change.Decide {
			requests = append(requests, reconcile.Request{NamespacedName: key})
		}
		return requests
	}
	room := waiting(func(c Change) bool { return c.Room })
	reasons := waiting(func(c Change) bool { return c.Reasons })
	return ctrl.NewControllerManagedBy(mgr).Named("placement").
		For(&v1alpha1.NVMePartition{}, builder.WithPredicates(unplaced)).
		WatchesRawSource(Source(r.Ledger, now, 0)).
		WatchesRawSource(Source(r.Ledger, room, retryDelay)).
		WatchesRawSource(Source(r.Ledger, reasons, reasonDelay)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// Reconcile places one partition.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	p := &v1alpha1.NVMePartition{}
	if err := r.Client.Get(ctx, request.NamespacedName, p); err != nil {
		r.began.Delete(request.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	ctx = telemetry.Log(ctx, p)
	switch {
	case p.Spec.NodeName != "":
		r.began.Delete(request.NamespacedName)
		return reconcile.Result{}, nil
	case r.lag.Lags(p):
		return reconcile.Result{}, nil
	case p.DeletionTimestamp != nil:
		return reconcile.Result{}, r.letGo(ctx, p)
	}
	began, _ := r.began.LoadOrStore(request.NamespacedName, time.Now())
	attempt := r.Ledger.Place(p)
	switch {
	case attempt.Placement != nil:
		r.began.Delete(request.NamespacedName)
		return reconcile.Result{}, r.place(ctx, p, attempt.Placement, began.(time.Time))
	case attempt.Refusal != "":
		r.began.Delete(request.NamespacedName)
		return reconcile.Result{}, r.refuse(ctx, p, attempt.Refusal, began.(time.Time))
	}
	return reconcile.Result{}, nil
}

// letGo drops the finalizer of a deleted partition that was never placed, and
// so has nothing on any drive. The optimistic lock refuses it when a placement
// landed meanwhile.
func (r *Reconciler) letGo(ctx context.Context, p *v1alpha1.NVMePartition) error {
	base := p.DeepCopy()
	if !controllerutil.RemoveFinalizer(p, v1alpha1.SliceFinalizer) {
		return nil
	}
	if err := write.Patch(ctx, r.Client, p, base); write.IgnoreLost(err) != nil {
		return fmt.Errorf("drop the finalizer of unplaced partition %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// place writes a placement that is reserved: node, drive and claim in one patch.
func (r *Reconciler) place(ctx context.Context, p *v1alpha1.NVMePartition, placement *Placement, began time.Time) error {
	base := p.DeepCopy()
	work := telemetry.Work{Name: "place", Object: base, Phase: tracing.Begin, Began: began, Place: placement.Node + ", drive " + placement.Serial}
	p.Spec.NodeName, p.Spec.ParentDeviceSerialNumber = placement.Node, placement.Serial
	p.Spec.ClaimRef = placement.Claim.DeepCopy()
	switch err := write.Patch(ctx, r.Client, p, base); {
	case err == nil:
		r.Ledger.Sent(p.UID, base.ResourceVersion)
	case apierrors.IsInvalid(err):
		work.Err = err
		r.Tracer.Did(work)
		return reconcile.TerminalError(fmt.Errorf("place partition %s/%s on drive %s: %w", p.Namespace, p.Name, placement.Device, err))
	case write.IgnoreLost(err) == nil:
		// Something else wrote the partition, or this placement landed before and
		// its answer was lost. Either way the watch brings a later state.
		return nil
	default:
		work.Err = err
		r.Tracer.Did(work)
		return fmt.Errorf("place partition %s/%s on drive %s: %w", p.Namespace, p.Name, placement.Device, err)
	}
	r.Tracer.Did(work)
	metrics.Placed(began)
	log.FromContext(ctx).Info("placed partition", "node", placement.Node, "device", placement.Device, "serial", placement.Serial)
	if meta.IsStatusConditionFalse(base.Status.Conditions, v1alpha1.ConditionPlaced) {
		r.Recorder.Eventf(p, nil, corev1.EventTypeNormal, v1alpha1.ReasonPlaced, "Place",
			"Placed on drive %s of node %s", placement.Serial, placement.Node)
	}
	return nil
}

// refuse says why the partition is not placed, when that changed.
func (r *Reconciler) refuse(ctx context.Context, p *v1alpha1.NVMePartition, why string, began time.Time) error {
	base := p.DeepCopy()
	changed := meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionPlaced, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoCandidate,
		Message: tracing.Note(p, tracing.Begin, why), ObservedGeneration: p.Generation,
	})
	if !changed {
		return nil
	}
	if err := write.Status(ctx, r.Client, p, base); err != nil {
		if write.IgnoreLost(err) == nil {
			return nil
		}
		return fmt.Errorf("say why partition %s/%s is not placed: %w", p.Namespace, p.Name, err)
	}
	r.lag.Replaced(p, base.ResourceVersion)
	metrics.Refused()
	r.Tracer.Did(telemetry.Work{Name: "place", Object: p, Phase: tracing.Begin, Began: began, Err: errors.New(why)})
	log.FromContext(ctx).Info("found no drive for partition", "reason", why)
	r.Recorder.Eventf(p, nil, corev1.EventTypeWarning, v1alpha1.ReasonNoCandidate, "Place", "%s", why)
	return nil
}
