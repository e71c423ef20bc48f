package partition

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

	"github.com/distort-io/distort/modules/agent/internal/devicelock"
	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/agent/internal/metrics"
	"github.com/distort-io/distort/modules/agent/internal/telemetry"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/agent/internal/written"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const (
	// targetTimeout bounds one change of an export. Draining a namespace takes as
	// long as its device does; after this the condition says what is stuck.
	targetTimeout = 30 * time.Second
	// carveTimeout bounds one change of a drive's table. It is long because a deletion
	// zeroes the slice, and begins anew when it is cut off.
	carveTimeout = 2 * time.Hour
)

// Reconciler reconciles the NVMePartitions of one node. All fields but Restored,
// Delay and Tracer are required.
type Reconciler struct {
	// Client reads from a cache that holds this node's objects only.
	Client   client.Client
	Recorder events.EventRecorder
	NodeName string
	Backends export.Backends
	Locators volume.Locators
	Exporter *volume.Exporter
	// Started opens when every partition was looked at once.
	Started *volume.Gate
	// Restored is closed when the exports were restored (volume.Restore); nothing is
	// done before. Nil: there is nothing to wait for.
	Restored <-chan struct{}
	// Delay is how long to wait for something outside Kubernetes; nil means 30 to 60
	// seconds, at random.
	Delay func() time.Duration
	// Tracer makes spans of what was done; nil makes none.
	Tracer *telemetry.Tracer

	// written and devices are our last writes, for as long as the cache has not
	// seen them.
	written written.Memory[*v1alpha1.NVMePartition]
	devices written.Memory[*v1alpha1.NVMeDevice]
	// locking serialises changes of a drive's activeBackend.
	locking devicelock.Locks
}

func (r *Reconciler) validate() error {
	if r.Client == nil || r.Recorder == nil || r.NodeName == "" || r.Backends == nil || r.Locators == nil || r.Exporter == nil || r.Started == nil {
		return errors.New("partition reconciler: client, recorder, node name, backends, locator, exporter and gate must all be set")
	}
	return nil
}

// Latest returns the object as it was written last, when that is newer than the cached
// one.
func (r *Reconciler) Latest(cached *v1alpha1.NVMePartition) *v1alpha1.NVMePartition {
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
	p := &v1alpha1.NVMePartition{}
	switch err := r.Client.Get(ctx, req.NamespacedName, p); {
	case apierrors.IsNotFound(err):
		r.written.Forget(req.NamespacedName)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("read NVMePartition %s: %w", req.NamespacedName, err)
	}
	if p.Spec.NodeName != r.NodeName {
		return ctrl.Result{}, nil
	}
	ctx = telemetry.Log(ctx, p, "uid", p.UID, "drive", p.Spec.ParentDeviceSerialNumber)
	return r.reconcile(ctx, r.written.Latest(p))
}

func (r *Reconciler) reconcile(ctx context.Context, p *v1alpha1.NVMePartition) (ctrl.Result, error) {
	held := controllerutil.ContainsFinalizer(p, v1alpha1.SliceFinalizer)
	s := &scope{partition: p}
	switch {
	case !p.DeletionTimestamp.IsZero() && !held:
		return ctrl.Result{}, nil
	case !p.DeletionTimestamp.IsZero():
		return r.delete(ctx, s)
	case !held:
		// Nothing is carved for an object that could go without us.
		changed := p.DeepCopy()
		controllerutil.AddFinalizer(changed, v1alpha1.SliceFinalizer)
		if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(p, client.MergeFromWithOptimisticLock{})); err != nil {
			return retryConflict(fmt.Errorf("add finalizer to NVMePartition %s/%s: %w", p.Namespace, p.Name, err))
		}
		r.written.Note(p, changed)
		s.partition = changed
	}
	r.provision(ctx, s)
	if err := r.write(ctx, s.partition, statusOf(s)); err != nil {
		return ctrl.Result{}, err
	}
	r.tell(ctx, s)
	return r.next(s.trouble())
}

func (r *Reconciler) delete(ctx context.Context, s *scope) (ctrl.Result, error) {
	p := s.partition
	if err := r.teardown(ctx, s); err != nil {
		f := failed(err)
		if err := r.write(ctx, p, waiting(p, f)); err != nil {
			return ctrl.Result{}, err
		}
		return r.next(f)
	}
	if err := r.release(ctx, p); err != nil {
		return retryConflict(err)
	}
	r.Recorder.Eventf(p, nil, corev1.EventTypeNormal, "Deleted", "Delete", "Export and slice were deleted on node %s", r.NodeName)
	return ctrl.Result{}, nil
}

// write patches the status if it is another one than was read. The agent is the
// only writer of what it changes here (design.md §3), so no lock is needed.
func (r *Reconciler) write(ctx context.Context, p *v1alpha1.NVMePartition, st v1alpha1.NVMePartitionStatus) error {
	if equality.Semantic.DeepEqual(p.Status, st) {
		return nil
	}
	changed := p.DeepCopy()
	changed.Status = st
	switch err := r.Client.Status().Patch(ctx, changed, client.MergeFrom(p)); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("write status of NVMePartition %s/%s: %w", p.Namespace, p.Name, err)
	default:
		r.written.Note(p, changed)
	}
	return nil
}

// tell logs what was done, and records events of what is worth a person's notice.
func (r *Reconciler) tell(ctx context.Context, s *scope) {
	logger := log.FromContext(ctx)
	if s.exported != nil && len(s.exported.Changes) > 0 {
		logger.Info("export changed", "created", s.exported.Created, "changes", s.exported.Changes)
	}
	switch first := s.partition.Status.NQN == ""; {
	case s.exported != nil && first:
		metrics.Provisioned(s.partition.CreationTimestamp.Time)
	case s.exported != nil && s.exported.Repaired():
		metrics.Repaired()
	}
	r.tellGrowth(s)
	before, after := s.partition.Status.State, stateOf(s)
	switch {
	case before == after:
	case after == v1alpha1.PartitionExported:
		r.Recorder.Eventf(s.partition, nil, corev1.EventTypeNormal, "Exported", "Export", "Slice of %d bytes on drive %s was exported by node %s",
			s.slice.SizeBytes, s.drive.Serial, r.NodeName)
	case s.failure != nil && (before == v1alpha1.PartitionExported || after == v1alpha1.PartitionFailed):
		r.Recorder.Eventf(s.partition, nil, corev1.EventTypeWarning, s.failure.reason, "Export", "%s", shorten(s.failure.Error()))
	}
}

// tellGrowth records an event when a growth succeeds, and for each other reason
// why it does not.
func (r *Reconciler) tellGrowth(s *scope) {
	if s.growth == nil {
		return
	}
	before := meta.FindStatusCondition(s.partition.Status.Conditions, v1alpha1.ConditionResized)
	told := func(reason string) bool {
		return before != nil && before.Reason == reason && before.ObservedGeneration == s.partition.Generation
	}
	if f := s.growth.failure; f == nil {
		r.Recorder.Eventf(s.partition, nil, corev1.EventTypeNormal, v1alpha1.ReasonResized, "Grow", "Slice was grown to %d bytes", s.slice.SizeBytes)
	} else if !told(f.reason) {
		r.Recorder.Eventf(s.partition, nil, corev1.EventTypeWarning, f.reason, "Grow", "%s", shorten(f.Error()))
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

// retryConflict turns a lost race for an object into another look at it: the
// winner's change is on its way to the cache.
func retryConflict(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	return ctrl.Result{}, err
}
