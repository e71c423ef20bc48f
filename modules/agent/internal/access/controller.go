package access

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/distort-io/distort/modules/agent/internal/telemetry"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/agent/internal/written"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// targetTimeout bounds one change of an export; see package partition.
const targetTimeout = 30 * time.Second

// Reconciler reconciles the NVMeVolumeAttachments of one node. All fields but
// Latest, Restored, Delay and Tracer are required.
type Reconciler struct {
	// Client reads from a cache that holds this node's objects only, with the index
	// of volume.IndexAttachments.
	Client   client.Client
	Recorder events.EventRecorder
	NodeName string
	Locator  volume.Finder
	Exporter *volume.Exporter
	// Latest returns a volume as this agent wrote it last, when that is newer than the
	// cached one: an attachment is often made within a moment of the export. Nil: there is
	// only the cache.
	Latest func(v1alpha1.Slice) v1alpha1.Slice
	// Restored is closed when the exports were restored (volume.Restore); nothing is
	// done before. Nil: there is nothing to wait for.
	Restored <-chan struct{}
	// Delay is how long to wait for something outside Kubernetes; nil means 30 to 60
	// seconds, at random.
	Delay func() time.Duration
	// Tracer makes spans of what was done; nil makes none.
	Tracer *telemetry.Tracer

	// written and volumes are our last writes, for as long as the cache has not seen
	// them.
	written written.Memory[*v1alpha1.NVMeVolumeAttachment]
	volumes written.Memory[v1alpha1.Slice]
}

func (r *Reconciler) validate() error {
	if r.Client == nil || r.Recorder == nil || r.NodeName == "" || r.Locator == nil || r.Exporter == nil {
		return errors.New("access reconciler: client, recorder, node name, locator and exporter must all be set")
	}
	return nil
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := volume.Await(ctx, r.Restored); err != nil {
		return ctrl.Result{}, err
	}
	a := &v1alpha1.NVMeVolumeAttachment{}
	switch err := r.Client.Get(ctx, req.NamespacedName, a); {
	case apierrors.IsNotFound(err):
		r.written.Forget(req.NamespacedName)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("read NVMeVolumeAttachment %s: %w", req.NamespacedName, err)
	}
	if a.Spec.TargetNode != r.NodeName {
		return ctrl.Result{}, nil
	}
	a = r.written.Latest(a)
	ctx = telemetry.Log(ctx, a, "volume", a.Spec.VolumeRef.Name, "host", a.Spec.NodeID, "attachmentID", a.Spec.AttachmentID)
	held := controllerutil.ContainsFinalizer(a, v1alpha1.AccessFinalizer)
	switch {
	case !a.DeletionTimestamp.IsZero() && !held:
		return ctrl.Result{}, nil
	case !a.DeletionTimestamp.IsZero():
		return retryConflict(r.revoke(ctx, a))
	case !held:
		// Its change wakes us: nobody is admitted whom we could not fence.
		changed := a.DeepCopy()
		controllerutil.AddFinalizer(changed, v1alpha1.AccessFinalizer)
		return retryConflict(ctrl.Result{}, r.patch(ctx, a, changed, "add finalizer to"))
	}
	return retryConflict(r.admit(ctx, a))
}

// write patches the status if it is another one than was read, and returns the
// object as it is then. The lock keeps a patch that was long on its way, from an
// agent that is dead by now, off another attachment of the same name.
func (r *Reconciler) write(ctx context.Context, a *v1alpha1.NVMeVolumeAttachment, st v1alpha1.NVMeVolumeAttachmentStatus) (*v1alpha1.NVMeVolumeAttachment, error) {
	if equality.Semantic.DeepEqual(a.Status, st) {
		return a, nil
	}
	changed := a.DeepCopy()
	changed.Status = st
	lock := client.MergeFromWithOptions(a, client.MergeFromWithOptimisticLock{})
	switch err := r.Client.Status().Patch(ctx, changed, lock); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("write status of NVMeVolumeAttachment %s/%s: %w", a.Namespace, a.Name, err)
	default:
		r.written.Note(a, changed)
	}
	return changed, nil
}

// patch writes a change of the object's metadata, if nobody was faster.
func (r *Reconciler) patch(ctx context.Context, from, to *v1alpha1.NVMeVolumeAttachment, what string) error {
	switch err := r.Client.Patch(ctx, to, client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{})); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("%s NVMeVolumeAttachment %s/%s: %w", what, from.Namespace, from.Name, err)
	default:
		r.written.Note(from, to)
	}
	return nil
}

// slice returns the volume that the attachment refers to; nil when it does not
// exist in that life any more.
func (r *Reconciler) slice(ctx context.Context, a *v1alpha1.NVMeVolumeAttachment) (v1alpha1.Slice, error) {
	ref := a.Spec.VolumeRef
	s := v1alpha1.NewSlice(ref.Kind)
	if s == nil {
		return nil, nil
	}
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	switch err := r.Client.Get(ctx, key, s); {
	case apierrors.IsNotFound(err):
		r.volumes.Forget(key)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s %s: %w", ref.Kind, key, err)
	case !volume.Refers(a, s):
		return nil, nil
	}
	if r.Latest != nil {
		s = r.Latest(s)
	}
	return r.volumes.Latest(s), nil
}

// next says when to come back.
func (r *Reconciler) next(f *failure) (ctrl.Result, error) {
	switch {
	case f == nil || f.remedy == waitForEvent:
		return ctrl.Result{}, nil
	case f.remedy == waitForHost:
		return ctrl.Result{RequeueAfter: r.Delay()}, nil
	case f.remedy == needsPerson:
		return ctrl.Result{}, reconcile.TerminalError(f)
	}
	return ctrl.Result{}, f
}

// retryConflict turns a lost race for an object into another look at it: the
// winner's change is on its way to the cache.
func retryConflict(result ctrl.Result, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	return result, err
}
