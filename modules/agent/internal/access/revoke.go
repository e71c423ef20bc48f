package access

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/agent/internal/metrics"
	"github.com/distort-io/distort/modules/agent/internal/telemetry"
	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// revoke fences the host and lets the attachment go, in an order in which each
// step may be the last before a crash: fence, evidence, format record, finalizer.
func (r *Reconciler) revoke(ctx context.Context, a *v1alpha1.NVMeVolumeAttachment) (ctrl.Result, error) {
	p, err := r.slice(ctx, a)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !proven(a, r.NodeName) {
		evidence, err := r.fence(ctx, a, p)
		if err != nil {
			f := &failure{v1alpha1.ReasonRevoking, tryAgain, fmt.Errorf("node %s is not fenced yet: %w", a.Spec.NodeID, err)}
			if errors.Is(err, export.ErrUnsupported) {
				f.remedy = needsPerson
			}
			if _, err := r.write(ctx, a, revocation(a, r.NodeName, nil, f)); err != nil {
				return ctrl.Result{}, err
			}
			return r.next(f)
		}
		st := revocation(a, r.NodeName, evidence, nil)
		if a, err = r.write(ctx, a, st); err != nil {
			return ctrl.Result{}, err
		}
		log.FromContext(ctx).Info("host fenced", "observed", st.Revocation.Observed)
	}
	if p != nil {
		if err := r.copyRecord(ctx, a, p); err != nil {
			return ctrl.Result{}, err
		}
	}
	return r.release(ctx, a, p)
}

// fence asks the backend that exports the volume; when the volume's object is
// gone, each one there is.
func (r *Reconciler) fence(ctx context.Context, a *v1alpha1.NVMeVolumeAttachment, p v1alpha1.Slice) ([]export.Evidence, error) {
	var backend v1alpha1.TargetBackend
	if p != nil {
		backend = p.GetTargetBackend()
	}
	ctx, cancel := context.WithTimeout(ctx, targetTimeout)
	defer cancel()
	started := time.Now()
	evidence, err := r.Exporter.Revoke(ctx, a.Spec.VolumeRef.UID, backend, a.Spec.HostNQN)
	metrics.Fenced(started, err)
	r.Tracer.Did(telemetry.Work{Name: "revoke", Object: a, Phase: tracing.End, Began: started, Err: err, Place: r.NodeName, Changes: observations(evidence)})
	if err == nil {
		log.FromContext(ctx).V(1).Info("fence finished", "seconds", time.Since(started).Seconds())
	}
	return evidence, err
}

// observations are what was observed, a line each.
func observations(evidence []export.Evidence) []string {
	var observed []string
	for _, e := range evidence {
		observed = append(observed, e.Observed)
	}
	return observed
}

// release drops the finalizer from the object as it was when its format record
// was copied: a node that wrote another one since makes this a conflict, and the
// next pass copies that.
func (r *Reconciler) release(ctx context.Context, a *v1alpha1.NVMeVolumeAttachment, p v1alpha1.Slice) (ctrl.Result, error) {
	changed := a.DeepCopy()
	controllerutil.RemoveFinalizer(changed, v1alpha1.AccessFinalizer)
	if err := r.patch(ctx, a, changed, "drop finalizer of"); err != nil {
		return ctrl.Result{}, err
	}
	r.keepEvidence(ctx, a, p)
	return ctrl.Result{}, nil
}

// keepEvidence tells the evidence where it outlives the attachment: in an event on
// the volume, and in the log.
func (r *Reconciler) keepEvidence(ctx context.Context, a *v1alpha1.NVMeVolumeAttachment, p v1alpha1.Slice) {
	e := a.Status.Revocation
	log.FromContext(ctx).Info("attachment released", "attachment", a.Name, "observed", e.Observed, "source", e.Source,
		"observedAt", e.ObservedAt.UTC(), "agent", e.Agent)
	var regarding runtime.Object = a
	if p != nil {
		regarding = p
	}
	note := fmt.Sprintf("Node %s was fenced (attachment %s); %s saw in %s at %s: %s", a.Spec.NodeID, a.Spec.AttachmentID,
		e.Agent, e.Source, e.ObservedAt.UTC().Format(time.RFC3339), e.Observed)
	r.Recorder.Eventf(regarding, a, corev1.EventTypeNormal, v1alpha1.ReasonRevoked, "Revoke", "%s", shorten(note, maxNote))
}
