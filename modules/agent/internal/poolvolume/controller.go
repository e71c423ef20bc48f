package poolvolume

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/distort-io/distort/modules/agent/internal/metrics"
	"github.com/distort-io/distort/modules/agent/internal/telemetry"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/agent/internal/written"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const (
	// targetTimeout bounds one change of an export; see package partition.
	targetTimeout = 30 * time.Second
	// poolTimeout bounds one change of a pool. A pool that hangs for longer keeps
	// itself locked, and nothing else.
	poolTimeout = 2 * time.Minute
)

// Accounts is how volumes and samples of a pool agree on what a sample contains
// (pool.Reporter).
type Accounts interface {
	// Next is the generation of the first sample of the pool that is sure to contain
	// what exists now; false when that is not known yet.
	Next(guid v1alpha1.PoolGUID) (int64, bool)
	// Publish publishes a sample of each pool that contains what exists now.
	Publish(ctx context.Context) error
}

// Reconciler reconciles the Volumes of one node. All fields but Restored, Delay and
// Tracer are required.
type Reconciler struct {
	// Client reads from a cache that holds this node's objects only.
	Client   client.Client
	Recorder events.EventRecorder
	NodeName string
	Locator  *Locator
	Exporter *volume.Exporter
	Accounts Accounts
	// Started opens when every volume was looked at once.
	Started *volume.Gate
	// Restored is closed when the exports were restored (volume.Restore); nothing is
	// done before. Nil: there is nothing to wait for.
	Restored <-chan struct{}
	// Delay is how long to wait for something outside Kubernetes; nil means 30 to 60
	// seconds, at random.
	Delay func() time.Duration
	// Tracer makes spans of what was done; nil makes none.
	Tracer *telemetry.Tracer

	// written are our last writes, for as long as the cache has not seen them.
	written written.Memory[*v1alpha1.Volume]
}

func (r *Reconciler) validate() error {
	if r.Client == nil || r.Recorder == nil || r.NodeName == "" || r.Locator == nil || r.Exporter == nil || r.Accounts == nil || r.Started == nil {
		return errors.New("volume reconciler: client, recorder, node name, locator, exporter, accounts and gate must all be set")
	}
	return nil
}

// Latest returns the object as it was written last, when that is newer than the cached
// one.
func (r *Reconciler) Latest(cached *v1alpha1.Volume) *v1alpha1.Volume {
	return r.written.Latest(cached)
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := volume.Await(ctx, r.Restored); err != nil {
		return ctrl.Result{}, err
	}
	defer func() {
		if ctx.Err() == nil {
			r.Started.Done(req.NamespacedName)
		}
	}()
	v := &v1alpha1.Volume{}
	switch err := r.Client.Get(ctx, req.NamespacedName, v); {
	case apierrors.IsNotFound(err):
		r.written.Forget(req.NamespacedName)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("read Volume %s: %w", req.Name, err)
	}
	if v.Spec.OwnerNode != r.NodeName {
		return ctrl.Result{}, nil
	}
	ctx = telemetry.Log(ctx, v, "uid", v.UID, "pool", v.Spec.PoolGUID)
	return r.reconcile(ctx, r.written.Latest(v))
}

func (r *Reconciler) reconcile(ctx context.Context, v *v1alpha1.Volume) (ctrl.Result, error) {
	held := controllerutil.ContainsFinalizer(v, v1alpha1.SliceFinalizer)
	s := &scope{volume: v}
	switch {
	case !v.DeletionTimestamp.IsZero() && !held:
		return ctrl.Result{}, nil
	case !v.DeletionTimestamp.IsZero():
		return r.delete(ctx, s)
	case !held:
		// Nothing is made for an object that could go without us.
		changed := v.DeepCopy()
		controllerutil.AddFinalizer(changed, v1alpha1.SliceFinalizer)
		if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(v, client.MergeFromWithOptimisticLock{})); err != nil {
			return retryConflict(fmt.Errorf("add finalizer to Volume %s: %w", v.Name, err))
		}
		r.written.Note(v, changed)
		s.volume = changed
	}
	r.provision(ctx, s)
	if _, err := r.write(ctx, s.volume, statusOf(s)); err != nil {
		return ctrl.Result{}, err
	}
	r.tell(ctx, s)
	return r.next(s.trouble())
}

func (r *Reconciler) delete(ctx context.Context, s *scope) (ctrl.Result, error) {
	v := s.volume
	if err := r.teardown(ctx, s); err != nil {
		f := failed(err)
		if _, err := r.write(ctx, v, waiting(v, f)); err != nil {
			return ctrl.Result{}, err
		}
		return r.next(f)
	}
	if err := r.release(ctx, v); err != nil {
		return retryConflict(err)
	}
	r.Recorder.Eventf(v, nil, corev1.EventTypeNormal, "Deleted", "Delete", "Export of the volume was ended by node %s", r.NodeName)
	return ctrl.Result{}, nil
}

// write patches the status if it is another one than was read, and returns the
// object as it is then. The agent is the only writer of what it changes here
// (design.md §3), so no lock is needed.
func (r *Reconciler) write(ctx context.Context, v *v1alpha1.Volume, st v1alpha1.VolumeStatus) (*v1alpha1.Volume, error) {
	if equality.Semantic.DeepEqual(v.Status, st) {
		return v, nil
	}
	changed := v.DeepCopy()
	changed.Status = st
	switch err := r.Client.Status().Patch(ctx, changed, client.MergeFrom(v)); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("write status of Volume %s: %w", v.Name, err)
	default:
		r.written.Note(v, changed)
	}
	return changed, nil
}

// tell logs what was done, and records events of what is worth a person's notice.
func (r *Reconciler) tell(ctx context.Context, s *scope) {
	if s.exported != nil && len(s.exported.Changes) > 0 {
		log.FromContext(ctx).Info("export changed", "created", s.exported.Created, "changes", s.exported.Changes)
	}
	switch first := s.volume.Status.TargetNQN == ""; {
	case s.exported != nil && first:
		metrics.Provisioned(s.volume.CreationTimestamp.Time)
	case s.exported != nil && s.exported.Repaired():
		metrics.Repaired()
	}
	if s.growth != nil {
		r.tellChange(s, v1alpha1.ConditionResized, "Grow", s.growth.failure, fmt.Sprintf("Zvol was grown to %d bytes", s.zvol.SizeBytes))
	}
	if s.modification != nil {
		r.tellChange(s, v1alpha1.ConditionModified, "Modify", s.modification.failure, "Zvol was given compression "+s.zvol.Compression)
	}
	before, after := s.volume.Status.State, stateOf(s)
	switch {
	case before == after:
	case after == v1alpha1.VolumeReadyToPublish:
		r.Recorder.Eventf(s.volume, nil, corev1.EventTypeNormal, "Exported", "Export", "Zvol %s of %d bytes was exported by node %s",
			s.zvol.Dataset, s.zvol.SizeBytes, r.NodeName)
	case s.failure != nil && (before == v1alpha1.VolumeReadyToPublish || after == v1alpha1.VolumeError):
		r.Recorder.Eventf(s.volume, nil, corev1.EventTypeWarning, s.failure.reason, "Export", "%s", shorten(s.failure.Error()))
	}
}

// tellChange records an event when a change that a condition speaks of succeeds, and
// for each other reason why it does not.
func (r *Reconciler) tellChange(s *scope, kind, action string, f *failure, done string) {
	before := meta.FindStatusCondition(s.volume.Status.Conditions, kind)
	told := func(reason string) bool {
		return before != nil && before.Reason == reason && before.ObservedGeneration == s.volume.Generation
	}
	if f == nil {
		r.Recorder.Eventf(s.volume, nil, corev1.EventTypeNormal, kind, action, "%s", done)
	} else if !told(f.reason) {
		r.Recorder.Eventf(s.volume, nil, corev1.EventTypeWarning, f.reason, action, "%s", shorten(f.Error()))
	}
}

// next says when to come back.
func (r *Reconciler) next(f *failure) (ctrl.Result, error) {
	if f == nil {
		return ctrl.Result{}, nil
	}
	switch f.remedy {
	case waitForEvent:
		return ctrl.Result{}, nil
	case waitForHost:
		return ctrl.Result{RequeueAfter: r.Delay()}, nil
	case needsPerson:
		return ctrl.Result{}, reconcile.TerminalError(f)
	}
	return ctrl.Result{}, f
}

// retryConflict turns a lost race for an object into another look at it.
func retryConflict(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	return ctrl.Result{}, err
}
