package poolsnapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/distort-io/distort/modules/agent/internal/pool"
	"github.com/distort-io/distort/modules/agent/internal/telemetry"
	"github.com/distort-io/distort/modules/agent/internal/written"
	"github.com/distort-io/distort/modules/agent/internal/zfs"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// poolTimeout bounds one change of a pool.
const poolTimeout = 2 * time.Minute

// Reconciler reconciles the Snapshots of one node. All fields but Delay and Tracer
// are required.
type Reconciler struct {
	// Client reads from a cache that holds this node's objects only.
	Client   client.Client
	Recorder events.EventRecorder
	NodeName string
	Pools    *pool.Owner
	ZFS      *zfs.Manager
	// Delay is how long to wait for something outside Kubernetes; nil means 30 to 60
	// seconds, at random.
	Delay func() time.Duration
	// Tracer makes spans of what was done; nil makes none.
	Tracer *telemetry.Tracer

	// written are our last writes, for as long as the cache has not seen them.
	written written.Memory[*v1alpha1.Snapshot]
}

func (r *Reconciler) validate() error {
	if r.Client == nil || r.Recorder == nil || r.NodeName == "" || r.Pools == nil || r.ZFS == nil {
		return errors.New("snapshot reconciler: client, recorder, node name, pools and ZFS must all be set")
	}
	return nil
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s := &v1alpha1.Snapshot{}
	switch err := r.Client.Get(ctx, req.NamespacedName, s); {
	case apierrors.IsNotFound(err):
		r.written.Forget(req.NamespacedName)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("read Snapshot %s: %w", req.Name, err)
	}
	if s.Spec.NodeName != r.NodeName {
		return ctrl.Result{}, nil
	}
	ctx = telemetry.Log(ctx, s, "uid", s.UID, "volume", s.Spec.Source.Name)
	s = r.written.Latest(s)
	held := controllerutil.ContainsFinalizer(s, v1alpha1.SliceFinalizer)
	switch {
	case !s.DeletionTimestamp.IsZero() && !held:
		return ctrl.Result{}, nil
	case !s.DeletionTimestamp.IsZero():
		return r.delete(ctx, s)
	case s.Status.BackendGUID != "":
		return ctrl.Result{}, nil // taken
	case !held:
		// Nothing is taken for an object that could go without us.
		changed := s.DeepCopy()
		controllerutil.AddFinalizer(changed, v1alpha1.SliceFinalizer)
		if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(s, client.MergeFromWithOptimisticLock{})); err != nil {
			return retryConflict(fmt.Errorf("add finalizer to Snapshot %s: %w", s.Name, err))
		}
		r.written.Note(s, changed)
		s = changed
	}
	taken, err := r.take(ctx, s)
	if err := r.write(ctx, s, statusOf(s, taken, err)); err != nil {
		return ctrl.Result{}, err
	}
	if err == nil {
		r.Recorder.Eventf(s, nil, corev1.EventTypeNormal, v1alpha1.ReasonSnapshotTaken, "Take", "Snapshot %s was taken by node %s", taken.snapshot.Name, r.NodeName)
	}
	return r.next(err)
}

func (r *Reconciler) delete(ctx context.Context, s *v1alpha1.Snapshot) (ctrl.Result, error) {
	if err := r.destroy(ctx, s); err != nil {
		if err := r.write(ctx, s, deleting(s, err)); err != nil {
			return ctrl.Result{}, err
		}
		return r.next(err)
	}
	changed := s.DeepCopy()
	controllerutil.RemoveFinalizer(changed, v1alpha1.SliceFinalizer)
	err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(s, client.MergeFromWithOptimisticLock{}))
	if err := client.IgnoreNotFound(err); err != nil {
		return retryConflict(fmt.Errorf("drop finalizer of Snapshot %s: %w", s.Name, err))
	}
	r.written.Note(s, changed)
	return ctrl.Result{}, nil
}

// write patches the status if it is another one than was read.
func (r *Reconciler) write(ctx context.Context, s *v1alpha1.Snapshot, st v1alpha1.SnapshotStatus) error {
	if equality.Semantic.DeepEqual(s.Status, st) {
		return nil
	}
	changed := s.DeepCopy()
	changed.Status = st
	switch err := r.Client.Status().Patch(ctx, changed, client.MergeFrom(s)); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("write status of Snapshot %s: %w", s.Name, err)
	default:
		r.written.Note(s, changed)
	}
	return nil
}

// next says when to come back.
func (r *Reconciler) next(err error) (ctrl.Result, error) {
	switch f := (*failure)(nil); {
	case err == nil:
		return ctrl.Result{}, nil
	case errors.As(err, &f) && f.terminal:
		return ctrl.Result{}, reconcile.TerminalError(err)
	case errors.As(err, &f) && f.reason != v1alpha1.ReasonSnapshotFailed:
		return ctrl.Result{RequeueAfter: r.Delay()}, nil
	}
	return ctrl.Result{}, err
}

// retryConflict turns a lost race for an object into another look at it.
func retryConflict(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	return ctrl.Result{}, err
}
