package partition

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/agent/internal/metrics"
	"github.com/distort-io/distort/modules/agent/internal/telemetry"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// phase does one thing and writes what it found to the scope. Its error is a
// *failure and ends the pass.
type phase func(ctx context.Context, s *scope) error

// provision runs the phases in order and stops at the first failure.
func (r *Reconciler) provision(ctx context.Context, s *scope) {
	for _, p := range []phase{r.backend, r.authorise, r.findDrive, r.carve, r.export, r.grow} {
		if err := p(ctx, s); err != nil {
			s.failure = failed(err)
			return
		}
	}
}

// backend refuses what this agent cannot do, before anything is touched.
func (r *Reconciler) backend(_ context.Context, s *scope) error {
	spec := s.partition.Spec
	if _, err := r.Backends.Get(spec.TargetBackend); err != nil {
		return &failure{v1alpha1.ConditionProvisioned, v1alpha1.ReasonBackendUnsupported, needsPerson, err}
	}
	carver, err := r.Locators.Get(spec.TargetBackend)
	if err != nil {
		return &failure{v1alpha1.ConditionProvisioned, v1alpha1.ReasonBackendUnsupported, needsPerson, err}
	}
	s.carver = carver
	if spec.VolumeManager != v1alpha1.VolumeManagerPartition {
		return &failure{v1alpha1.ConditionProvisioned, v1alpha1.ReasonBackendUnsupported, needsPerson,
			fmt.Errorf("volume manager %q is not supported by this agent (it has %s)", spec.VolumeManager, v1alpha1.VolumeManagerPartition)}
	}
	return nil
}

// authorise makes sure that the live claim on the drive is the one that placement
// chose: a claim is the only permission by which a drive's content may change.
func (r *Reconciler) authorise(ctx context.Context, s *scope) error {
	no := func(reason string, remedy remedy, format string, args ...any) error {
		return &failure{v1alpha1.ConditionClaimAuthorized, reason, remedy, fmt.Errorf(format, args...)}
	}
	spec := s.partition.Spec
	name := r.deviceName(spec.ParentDeviceSerialNumber)
	d, err := r.device(ctx, spec.ParentDeviceSerialNumber)
	switch {
	case apierrors.IsNotFound(err):
		return no(v1alpha1.ReasonDeviceMissing, waitForEvent, "this node has no NVMeDevice %s (serial %q)", name, spec.ParentDeviceSerialNumber)
	case err != nil:
		return no(v1alpha1.ReasonDeviceMissing, tryAgain, "%w", err)
	}
	want, got := spec.ClaimRef, d.Status.ClaimRef
	switch {
	case want == nil:
		return no(v1alpha1.ReasonClaimMismatch, needsPerson, "spec names no claim")
	case got == nil:
		return no(v1alpha1.ReasonClaimMismatch, waitForEvent, "drive %s is not claimed; placement chose claim %s", name, claimText(want))
	case *got != *want:
		return no(v1alpha1.ReasonClaimMismatch, needsPerson, "drive %s belongs to claim %s; placement chose claim %s", name, claimText(got), claimText(want))
	}
	return nil
}

func claimText(ref *v1alpha1.ObjectReference) string {
	return fmt.Sprintf("%s/%s (%s)", ref.Namespace, ref.Name, ref.UID)
}

// findDrive finds the drive by its serial number, and takes the lock between
// backends before anything is carved.
func (r *Reconciler) findDrive(ctx context.Context, s *scope) error {
	d, err := s.carver.Drive(ctx, s.partition.Spec.ParentDeviceSerialNumber)
	if err != nil {
		return &failure{v1alpha1.ConditionClaimAuthorized, v1alpha1.ReasonDeviceMissing, waitForHost, err}
	}
	s.drive = d
	return r.lockDrive(ctx, s)
}

// carve finds the recorded slice, or makes a new one. A drive with anything on it
// that DISTORT did not write, or that the node itself uses, is refused.
func (r *Reconciler) carve(ctx context.Context, s *scope) error {
	var v carve.Volume
	var err error
	ctx, cancel := context.WithTimeout(ctx, carveTimeout)
	defer cancel()
	if s.recorded() {
		v, err = s.carver.Find(ctx, s.partition, s.drive)
	} else {
		began := time.Now()
		v, err = s.carver.Make(ctx, s.partition, s.drive)
		metrics.Carved(began, err)
		r.Tracer.Did(telemetry.Work{
			Name: "carve", Object: s.partition, Phase: tracing.Begin, Began: began, Err: err, Place: s.drive.Serial,
		})
	}
	if err != nil {
		return carveFailure(err)
	}
	s.slice = &v
	return nil
}

func carveFailure(err error) *failure {
	f := &failure{condition: v1alpha1.ConditionProvisioned, reason: v1alpha1.ReasonCarveFailed, remedy: tryAgain, err: err}
	switch {
	case errors.Is(err, volume.ErrSliceMissing):
		f.reason, f.remedy = v1alpha1.ReasonDataLoss, needsPerson
		f.err = fmt.Errorf("the recorded slice is lost and is not made anew: %w", err)
	case errors.Is(err, carve.ErrNoSpace):
		f.reason, f.remedy = v1alpha1.ReasonNoSpace, needsPerson
	case errors.Is(err, carve.ErrForeign), errors.Is(err, carve.ErrDamaged), errors.Is(err, carve.ErrBusy):
		f.reason, f.remedy = v1alpha1.ReasonDriveRefused, needsPerson
	case errors.Is(err, carve.ErrConflict), errors.Is(err, carve.ErrInvalid):
		f.remedy = needsPerson
	}
	return f
}

// export makes the export exact.
func (r *Reconciler) export(ctx context.Context, s *scope) error {
	ctx, cancel := context.WithTimeout(ctx, targetTimeout)
	defer cancel()
	began, before := time.Now(), s.partition.Status.NQN
	outcome, err := r.Exporter.Ensure(ctx, s.partition, s.slice.DevicePath)
	if err != nil && !errors.Is(err, volume.ErrGone) || len(outcome.Changes) > 0 && !outcome.Readmitted {
		r.Tracer.Did(telemetry.Work{
			Name: "export", Object: s.partition, Phase: tracing.Begin, Late: before != "", Began: began, Err: err, Changes: outcome.Changes, Place: r.NodeName,
		})
	}
	if err != nil {
		return exportFailure(err)
	}
	s.exported = &outcome
	return nil
}

func exportFailure(err error) *failure {
	f := &failure{condition: v1alpha1.ConditionExported, reason: v1alpha1.ReasonExportFailed, remedy: tryAgain, err: err}
	switch {
	case errors.Is(err, volume.ErrNoPortal):
		f.reason, f.remedy = v1alpha1.ReasonNoPortal, waitForHost
	case errors.Is(err, volume.ErrSliceInUse):
		f.remedy = waitForHost
	case errors.Is(err, volume.ErrGone):
		f.reason, f.remedy = v1alpha1.ReasonDeleting, waitForEvent
	case errors.Is(err, export.ErrInvalid):
		f.remedy = needsPerson
	}
	return f
}
