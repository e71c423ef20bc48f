package poolvolume

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/agent/internal/telemetry"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/agent/internal/zfs"
	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// teardown undoes the phases in reverse: each step proves that its part is gone
// before the next one begins, and the finalizer goes last. Its error is a
// *failure; nil means that the object may go.
func (r *Reconciler) teardown(ctx context.Context, s *scope) error {
	if err := r.unattached(ctx, s); err != nil {
		return err
	}
	if unsupported(s.volume) != nil && !s.recorded() {
		// Refused before anything was touched.
		return nil
	}
	if err := r.uncopied(ctx, s); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   phase
	}{{"unexport", r.unexport}, {"uncarve", r.uncarve}} {
		began := time.Now()
		err := step.do(ctx, s)
		r.Tracer.Did(telemetry.Work{Name: step.name, Object: s.volume, Phase: tracing.End, Began: began, Err: err, Place: r.NodeName})
		if err != nil {
			return err
		}
	}
	return nil
}

func stuck(remedy remedy, err error) *failure {
	return &failure{v1alpha1.ConditionExported, v1alpha1.ReasonDeleting, remedy, err}
}

// unattached waits until no attachment is left, deleting ones included: as long
// as one is there, its host may not be fenced.
func (r *Reconciler) unattached(ctx context.Context, s *scope) error {
	attachments, err := volume.Attachments(ctx, r.Client, s.volume.UID)
	if err != nil {
		return stuck(tryAgain, err)
	}
	if len(attachments) == 0 {
		return nil
	}
	var names []string
	for _, a := range attachments {
		names = append(names, fmt.Sprintf("%s (node %s)", a.Name, a.Spec.NodeID))
	}
	return stuck(waitForEvent, fmt.Errorf("waits for attachments: %s", strings.Join(names, ", ")))
}

func (r *Reconciler) unexport(ctx context.Context, s *scope) error {
	ctx, cancel := context.WithTimeout(ctx, targetTimeout)
	defer cancel()
	err := r.Exporter.Remove(ctx, s.volume)
	if errors.Is(err, export.ErrConnected) {
		// No attachment is left, so that nobody admitted them (known fault DV10).
		return &failure{v1alpha1.ConditionExported, v1alpha1.ReasonHostsConnected, waitForHost, fmt.Errorf("waits for the export to be unused: %w", err)}
	}
	if err != nil {
		return stuck(tryAgain, fmt.Errorf("waits for the export to end: %w", err))
	}
	return nil
}

// uncarve destroys the zvol by its recorded identity. Before one was recorded the
// zvol may exist all the same, made by an agent that died just after: it says whose
// it is.
func (r *Reconciler) uncarve(ctx context.Context, s *scope) error {
	v := s.volume
	if v.Spec.DeletionPolicy == v1alpha1.DeletionRetain {
		r.Recorder.Eventf(v, nil, corev1.EventTypeNormal, "DataRetained", "Delete", "Zvol %s of pool %s was kept", v.Status.DatasetPath, v.Spec.PoolGUID)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, poolTimeout)
	defer cancel()
	p, err := r.Locator.Pools.Working(ctx, v.Spec.PoolGUID)
	if errors.Is(err, zfs.ErrNoPool) && v.Annotations[v1alpha1.AbandonDataAnnotation] == string(v.UID) {
		r.Recorder.Eventf(v, nil, corev1.EventTypeWarning, "DataAbandoned", "Delete",
			"Volume was let go without its pool %s: zvol %s was not destroyed", v.Spec.PoolGUID, v.Status.DatasetPath)
		return nil
	}
	if err != nil {
		return stuck(waitForHost, fmt.Errorf("waits for the pool, to destroy the zvol: %w", err))
	}
	var dependants *zfs.DependantsError
	switch err := r.Locator.ZFS.Destroy(ctx, p, specOf(v), v.Status.DatasetGUID); {
	case errors.As(err, &dependants):
		return r.dependants(ctx, dependants)
	case errors.Is(err, zfs.ErrForeign), errors.Is(err, zfs.ErrDependants):
		return stuck(waitForHost, fmt.Errorf("waits for a person: %w", err))
	case err != nil:
		return stuck(tryAgain, fmt.Errorf("waits for the zvol to be destroyed: %w", err))
	}
	if v.Spec.SourceVolume != nil && !s.recorded() {
		if err := r.Locator.ZFS.DestroySnapshot(ctx, p, copyOf(v)); err != nil {
			return stuck(tryAgain, fmt.Errorf("waits for the snapshot of its source to be destroyed: %w", err))
		}
	}
	return nil
}

// release drops the finalizer. If others keep the object, its state says first
// that it holds nothing any more.
func (r *Reconciler) release(ctx context.Context, v *v1alpha1.Volume) error {
	if len(v.Finalizers) > 1 {
		st := *v.Status.DeepCopy()
		st.State = v1alpha1.VolumeDestroyed
		var err error
		if v, err = r.write(ctx, v, st); err != nil {
			return err
		}
	}
	changed := v.DeepCopy()
	controllerutil.RemoveFinalizer(changed, v1alpha1.SliceFinalizer)
	err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(v, client.MergeFromWithOptimisticLock{}))
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("drop finalizer of Volume %s: %w", v.Name, err)
	}
	r.written.Note(v, changed)
	return nil
}
