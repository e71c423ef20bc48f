package partition

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/agent/internal/telemetry"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/api/identity"
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
	if _, err := r.Backends.Get(s.partition.Spec.TargetBackend); errors.Is(err, export.ErrUnsupported) && !s.recorded() {
		// Refused in phase backend, before anything was touched.
		return nil
	}
	for _, step := range []struct {
		name string
		do   phase
	}{{"unexport", r.unexport}, {"uncarve", r.uncarve}} {
		began := time.Now()
		err := step.do(ctx, s)
		r.Tracer.Did(telemetry.Work{Name: step.name, Object: s.partition, Phase: tracing.End, Began: began, Err: err, Place: r.NodeName})
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
	attachments, err := volume.Attachments(ctx, r.Client, s.partition.UID)
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
	err := r.Exporter.Remove(ctx, s.partition)
	if errors.Is(err, export.ErrConnected) {
		// No attachment is left, so that nobody admitted them (known fault DV10).
		return &failure{v1alpha1.ConditionExported, v1alpha1.ReasonHostsConnected, waitForHost, fmt.Errorf("waits for the export to be unused: %w", err)}
	}
	if err != nil {
		return stuck(tryAgain, fmt.Errorf("waits for the export to end: %w", err))
	}
	return nil
}

// uncarve deletes the slice by its recorded identity. Before one was recorded the
// slice may exist all the same, made by an agent that died just after: it has the
// identity that is derived from the object's UID.
func (r *Reconciler) uncarve(ctx context.Context, s *scope) error {
	ctx, cancel := context.WithTimeout(ctx, carveTimeout)
	defer cancel()
	var err error
	if s.carver, err = r.Locators.Get(s.partition.Spec.TargetBackend); err != nil {
		return stuck(needsPerson, err)
	}
	d, err := s.carver.Drive(ctx, s.partition.Spec.ParentDeviceSerialNumber)
	if errors.Is(err, volume.ErrDriveMissing) && s.partition.Annotations[v1alpha1.AbandonDataAnnotation] == string(s.partition.UID) {
		r.Recorder.Eventf(s.partition, nil, corev1.EventTypeWarning, "DataAbandoned", "Delete",
			"Slice %s was let go without its drive %s: what is on it was not deleted", sliceName(s.partition), s.partition.Spec.ParentDeviceSerialNumber)
		return nil
	}
	if err != nil {
		return stuck(waitForHost, fmt.Errorf("waits for the drive, to delete the slice: %w", err))
	}
	err = s.carver.Delete(ctx, s.partition, d)
	if errors.Is(err, carve.ErrForeign) && !s.recorded() {
		// The drive was refused, so nothing was carved on it.
		return nil
	}
	if err != nil {
		return stuck(tryAgain, fmt.Errorf("waits for the slice to be deleted: %w", err))
	}
	return nil
}

// sliceName is how a slice is called that is given up.
func sliceName(p *v1alpha1.NVMePartition) string {
	if uuid := volume.SliceUUID(p); uuid != "" {
		return uuid
	}
	return identity.ExternalID(string(p.UID))
}

// release gives the drive back if this was the last partition on it, and drops
// the finalizer. Both happen under the drive's lock: of two partitions that go at
// once, the second one finds that the first has gone.
func (r *Reconciler) release(ctx context.Context, p *v1alpha1.NVMePartition) error {
	return r.locking.Do(ctx, p.Spec.ParentDeviceSerialNumber, func(ctx context.Context) error { return r.leaveDrive(ctx, p) })
}

// leaveDrive does what release says, under the drive's lock.
func (r *Reconciler) leaveDrive(ctx context.Context, p *v1alpha1.NVMePartition) error {
	if err := r.unlockDrive(ctx, p); err != nil {
		return err
	}
	changed := p.DeepCopy()
	controllerutil.RemoveFinalizer(changed, v1alpha1.SliceFinalizer)
	err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(p, client.MergeFromWithOptimisticLock{}))
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("drop finalizer of NVMePartition %s/%s: %w", p.Namespace, p.Name, err)
	}
	r.written.Note(p, changed)
	return nil
}
