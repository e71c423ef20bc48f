package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/agent/internal/metrics"
	"github.com/distort-io/distort/modules/agent/internal/telemetry"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// admit puts the attachment's host on the target's list, or says why not.
func (r *Reconciler) admit(ctx context.Context, a *v1alpha1.NVMeVolumeAttachment) (ctrl.Result, error) {
	p, err := r.slice(ctx, a)
	if err != nil {
		return ctrl.Result{}, err
	}
	began := time.Now()
	f := r.grant(ctx, a, p)
	if f != nil && errors.Is(f, errOutdated) {
		return ctrl.Result{}, nil
	}
	if p != nil {
		if err := r.copyFormatted(ctx, a, p); err != nil {
			return ctrl.Result{}, err
		}
	}
	if _, err := r.write(ctx, a, admission(a, p, f)); err != nil {
		return ctrl.Result{}, err
	}
	r.trace(a, began, f)
	r.tell(a, f)
	return r.next(f)
}

// errOutdated: the object that a pass began with has changed since, and its
// change wakes us.
var errOutdated = errors.New("attachment changed meanwhile")

// grant makes the export exact with this attachment's host on its list. Nil
// means that the target was read back with it.
func (r *Reconciler) grant(ctx context.Context, a *v1alpha1.NVMeVolumeAttachment, p v1alpha1.Slice) *failure {
	if f := refuse(a, p); f != nil {
		return f
	}
	path, err := r.Locator.Device(ctx, p)
	if err != nil {
		return &failure{v1alpha1.ReasonVolumeNotExported, waitForHost, err}
	}
	ctx, cancel := context.WithTimeout(ctx, targetTimeout)
	defer cancel()
	outcome, err := r.Exporter.Ensure(ctx, p, path)
	switch {
	case errors.Is(err, volume.ErrGone):
		return &failure{v1alpha1.ReasonVolumeNotExported, waitForEvent, err}
	case errors.Is(err, volume.ErrNoPortal), errors.Is(err, volume.ErrSliceInUse):
		return &failure{v1alpha1.ReasonGrantFailed, waitForHost, err}
	case errors.Is(err, export.ErrInvalid), errors.Is(err, export.ErrUnsupported):
		return &failure{v1alpha1.ReasonGrantFailed, needsPerson, err}
	case err != nil:
		return &failure{v1alpha1.ReasonGrantFailed, tryAgain, err}
	case !slices.Contains(outcome.Hosts, a.Spec.HostNQN):
		return &failure{v1alpha1.ReasonGrantFailed, waitForEvent, errOutdated}
	}
	if len(outcome.Changes) > 0 {
		log.FromContext(ctx).Info("access changed", "changes", outcome.Changes)
	}
	return nil
}

// refuse says why the attachment cannot be granted as the objects are now. It is
// pure.
func refuse(a *v1alpha1.NVMeVolumeAttachment, p v1alpha1.Slice) *failure {
	ref := a.Spec.VolumeRef
	if p == nil {
		return &failure{v1alpha1.ReasonVolumeMismatch, needsPerson,
			fmt.Errorf("this node has no %s %s/%s with UID %s", ref.Kind, ref.Namespace, ref.Name, ref.UID)}
	}
	if rule := volume.Inadmissible(p, a); rule != "" {
		return &failure{v1alpha1.ReasonGrantFailed, needsPerson, errors.New(rule)}
	}
	if !p.GetDeletionTimestamp().IsZero() {
		return &failure{v1alpha1.ReasonVolumeNotExported, waitForEvent, errors.New("the volume is being deleted")}
	}
	if c := meta.FindStatusCondition(p.GetConditions(), v1alpha1.ConditionExported); c == nil {
		return &failure{v1alpha1.ReasonVolumeNotExported, waitForEvent, errors.New("the volume was not exported yet")}
	} else if !meta.IsStatusConditionTrue(p.GetConditions(), v1alpha1.ConditionExported) {
		return &failure{v1alpha1.ReasonVolumeNotExported, waitForEvent, fmt.Errorf("the volume is not exported: %s", c.Reason)}
	}
	return nil
}

// trace makes the span of a grant, and of one that the target refused, and counts
// the former.
func (r *Reconciler) trace(a *v1alpha1.NVMeVolumeAttachment, began time.Time, f *failure) {
	w := telemetry.Work{Name: "grant", Object: a, Phase: tracing.Begin, Began: began, Place: r.NodeName}
	switch before := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionAccessReady); {
	case f == nil && (before == nil || before.Reason != v1alpha1.ReasonGranted):
		metrics.Admitted(a.CreationTimestamp.Time)
		r.Tracer.Did(w)
	case f != nil && f.reason == v1alpha1.ReasonGrantFailed:
		w.Err = f
		r.Tracer.Did(w)
	}
}

func (r *Reconciler) tell(a *v1alpha1.NVMeVolumeAttachment, f *failure) {
	before := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionAccessReady)
	switch {
	case f == nil && (before == nil || before.Reason != v1alpha1.ReasonGranted):
		r.Recorder.Eventf(a, nil, corev1.EventTypeNormal, v1alpha1.ReasonGranted, "Admit", "Node %s was admitted to the volume", a.Spec.NodeID)
	case f != nil && f.reason != v1alpha1.ReasonVolumeNotExported && (before == nil || before.Reason != f.reason):
		r.Recorder.Eventf(a, nil, corev1.EventTypeWarning, f.reason, "Admit", "Node %s was not admitted: %v", a.Spec.NodeID, f)
	}
}
