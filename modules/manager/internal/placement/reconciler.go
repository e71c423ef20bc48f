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
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
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

// Reconciler places the objects of one kind, NVMePartitions or Volumes: one write
// when it succeeds, one when it first fails or fails for another reason, none
// otherwise.
type Reconciler struct {
	// Kind of the objects.
	Kind v1alpha1.VolumeKind
	// Client reads from the cache.
	Client client.Client
	// Live reads from the API server, which may know a snapshot that the cache does not
	// know yet.
	Live client.Reader
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

// workers is how many objects are written at once. The decisions are made one
// by one in the Ledger.
const workers = 4

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	unplaced := predicate.NewPredicateFuncs(func(o client.Object) bool {
		s, ok := o.(v1alpha1.Slice)
		return ok && s.GetTargetNode() == ""
	})
	name, list, decided := "placement", r.Ledger.Waiting, func(c Change) []client.ObjectKey { return c.Decide }
	if r.Kind == v1alpha1.KindVolume {
		name, list, decided = "pool-placement", r.Ledger.WaitingVolumes, func(c Change) []client.ObjectKey { return c.DecideVolumes }
	}
	waiting := func(matters func(Change) bool) func(Change) []reconcile.Request {
		return func(change Change) []reconcile.Request {
			if !matters(change) {
				return nil
			}
			var requests []reconcile.Request
			for _, key := range list() {
				requests = append(requests, reconcile.Request{NamespacedName: key})
			}
			return requests
		}
	}
	now := func(change Change) []reconcile.Request {
		keys := decided(change)
		requests := make([]reconcile.Request, 0, len(keys))
		for _, key := range keys {
			requests = append(requests, reconcile.Request{NamespacedName: key})
		}
		return requests
	}
	room := waiting(func(c Change) bool { return c.Room })
	reasons := waiting(func(c Change) bool { return c.Reasons })
	b := ctrl.NewControllerManagedBy(mgr)
	if r.Kind == v1alpha1.KindVolume {
		always := waiting(func(Change) bool { return true })
		b.Watches(&v1alpha1.Snapshot{}, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
			return always(Change{})
		}), builder.WithPredicates(taken()))
	}
	return b.Named(name).
		For(v1alpha1.NewSlice(r.Kind), builder.WithPredicates(unplaced)).
		WatchesRawSource(Source(r.Ledger, now, 0)).
		WatchesRawSource(Source(r.Ledger, room, retryDelay)).
		WatchesRawSource(Source(r.Ledger, reasons, reasonDelay)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// Reconcile places one object.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	p := v1alpha1.NewSlice(r.Kind)
	if err := r.Client.Get(ctx, request.NamespacedName, p); err != nil {
		r.began.Delete(request.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	ctx = telemetry.Log(ctx, p)
	switch {
	case p.GetTargetNode() != "":
		r.began.Delete(request.NamespacedName)
		return reconcile.Result{}, nil
	case r.lag.Lags(p):
		return reconcile.Result{}, nil
	case p.GetDeletionTimestamp() != nil:
		return reconcile.Result{}, r.letGo(ctx, p)
	}
	began, _ := r.began.LoadOrStore(request.NamespacedName, time.Now())
	var attempt Attempt
	switch p := p.(type) {
	case *v1alpha1.NVMePartition:
		attempt = r.Ledger.Place(p)
	case *v1alpha1.Volume:
		snapshot, err := r.snapshot(ctx, p)
		if err != nil {
			return reconcile.Result{}, err
		}
		attempt = r.Ledger.PlaceVolume(p, snapshot)
	}
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

// taken lets through that a snapshot has a pool now.
func taken() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.(*v1alpha1.Snapshot).Status.PoolGUID != e.ObjectNew.(*v1alpha1.Snapshot).Status.PoolGUID
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// snapshot reads the one that a Volume is made of; nil when there is none.
func (r *Reconciler) snapshot(ctx context.Context, v *v1alpha1.Volume) (*v1alpha1.Snapshot, error) {
	of := v.Spec.SourceSnapshot
	if of == nil {
		return nil, nil
	}
	var found *v1alpha1.Snapshot
	for _, reader := range []client.Reader{r.Client, r.Live} {
		s := &v1alpha1.Snapshot{}
		switch err := reader.Get(ctx, client.ObjectKey{Name: of.Name}, s); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("read Snapshot %s: %w", of.Name, err)
		}
		if found = s; s.UID == of.UID && s.Status.PoolGUID != "" {
			break
		}
	}
	return found, nil
}

// copyOf copies an object of either kind.
func copyOf(s v1alpha1.Slice) v1alpha1.Slice { return s.DeepCopyObject().(v1alpha1.Slice) }

// letGo drops the finalizer of a deleted object that was never placed, and
// so has nothing anywhere. The optimistic lock refuses it when a placement
// landed meanwhile.
func (r *Reconciler) letGo(ctx context.Context, p v1alpha1.Slice) error {
	base := copyOf(p)
	if !controllerutil.RemoveFinalizer(p, v1alpha1.SliceFinalizer) {
		return nil
	}
	if err := write.Patch(ctx, r.Client, p, base); write.IgnoreLost(err) != nil {
		return fmt.Errorf("drop the finalizer of unplaced %s %s: %w", r.Kind, client.ObjectKeyFromObject(p), err)
	}
	return nil
}

// place writes a placement that is reserved in one patch.
func (r *Reconciler) place(ctx context.Context, p v1alpha1.Slice, placement *Placement, began time.Time) error {
	base := copyOf(p)
	where := placement.put(p)
	work := telemetry.Work{Name: "place", Object: base, Phase: tracing.Begin, Began: began, Place: placement.Node + ", " + where}
	failed := func(err error) error {
		work.Err = err
		r.Tracer.Did(work)
		return fmt.Errorf("place %s %s on %s: %w", r.Kind, client.ObjectKeyFromObject(p), where, err)
	}
	switch err := write.Patch(ctx, r.Client, p, base); {
	case err == nil:
		r.Ledger.Sent(p.GetUID(), base.GetResourceVersion())
	case apierrors.IsInvalid(err):
		return reconcile.TerminalError(failed(err))
	case write.IgnoreLost(err) == nil:
		// Something else wrote the object, or this placement landed before and
		// its answer was lost. Either way the watch brings a later state.
		return nil
	default:
		return failed(err)
	}
	r.Tracer.Did(work)
	metrics.Placed(began)
	log.FromContext(ctx).Info("volume placed", "node", placement.Node, "device", placement.Device, "serial", placement.Serial, "pool", placement.Pool)
	if meta.IsStatusConditionFalse(base.GetConditions(), v1alpha1.ConditionPlaced) {
		r.Recorder.Eventf(p, nil, corev1.EventTypeNormal, v1alpha1.ReasonPlaced, "Place", "Placed on %s of node %s", where, placement.Node)
	}
	return nil
}

// put writes the placement to the object, and says on what it is.
func (p *Placement) put(s v1alpha1.Slice) (where string) {
	switch s := s.(type) {
	case *v1alpha1.NVMePartition:
		s.Spec.NodeName, s.Spec.ParentDeviceSerialNumber = p.Node, p.Serial
		s.Spec.ClaimRef = p.Claim.DeepCopy()
		return "drive " + p.Serial
	case *v1alpha1.Volume:
		s.Spec.OwnerNode, s.Spec.PoolGUID, s.Spec.NetworkDomain = p.Node, p.Pool, p.Domain
	}
	return "pool " + string(p.Pool)
}

// refuse says why the object is not placed, when that changed.
func (r *Reconciler) refuse(ctx context.Context, p v1alpha1.Slice, why string, began time.Time) error {
	base := copyOf(p)
	conditions := p.GetConditions()
	changed := meta.SetStatusCondition(&conditions, metav1.Condition{
		Type: v1alpha1.ConditionPlaced, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoCandidate,
		Message: tracing.Note(p, tracing.Begin, why), ObservedGeneration: p.GetGeneration(),
	})
	if !changed {
		return nil
	}
	p.SetConditions(conditions)
	if err := write.Status(ctx, r.Client, p, base); err != nil {
		if write.IgnoreLost(err) == nil {
			return nil
		}
		return fmt.Errorf("say why %s %s is not placed: %w", r.Kind, client.ObjectKeyFromObject(p), err)
	}
	r.lag.Replaced(p, base.GetResourceVersion())
	metrics.Refused()
	r.Tracer.Did(telemetry.Work{Name: "place", Object: p, Phase: tracing.Begin, Began: began, Err: errors.New(why)})
	log.FromContext(ctx).Info("found no place", "reason", why)
	r.Recorder.Eventf(p, nil, corev1.EventTypeWarning, v1alpha1.ReasonNoCandidate, "Place", "%s", why)
	return nil
}
