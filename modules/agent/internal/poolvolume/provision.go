package poolvolume

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/agent/internal/metrics"
	"github.com/distort-io/distort/modules/agent/internal/pool"
	"github.com/distort-io/distort/modules/agent/internal/telemetry"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/agent/internal/zfs"
	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// phase does one thing and writes what it found to the scope. Its error is a
// *failure and ends the pass.
type phase func(ctx context.Context, s *scope) error

// provision runs the phases in order and stops at the first failure.
func (r *Reconciler) provision(ctx context.Context, s *scope) {
	for _, p := range []phase{r.supported, r.own, r.carve, r.reveal, r.export, r.grow, r.modify} {
		if err := p(ctx, s); err != nil {
			s.failure = failed(err)
			return
		}
	}
}

func (r *Reconciler) supported(_ context.Context, s *scope) error {
	if err := unsupported(s.volume); err != nil {
		return &failure{v1alpha1.ConditionProvisioned, v1alpha1.ReasonUnsupported, needsPerson, err}
	}
	return nil
}

// unsupported says what of the volume this agent cannot do.
func unsupported(v *v1alpha1.Volume) error {
	spec := v.Spec
	switch {
	case spec.Type != v1alpha1.VolumeBlock:
		return fmt.Errorf("type %q is not supported by this agent (it has %s)", spec.Type, v1alpha1.VolumeBlock)
	case spec.Provenance != v1alpha1.ProvenanceDynamic:
		return fmt.Errorf("provenance %q is not supported by this agent (it has %s)", spec.Provenance, v1alpha1.ProvenanceDynamic)
	case spec.SourceVolume != nil && spec.SourceVolume.Kind != v1alpha1.KindVolume:
		return fmt.Errorf("source of kind %s is not supported by this agent (it has %s)", spec.SourceVolume.Kind, v1alpha1.KindVolume)
	}
	return nil
}

// own makes sure that the pool is this node's, and usable.
func (r *Reconciler) own(ctx context.Context, s *scope) error {
	p, err := r.Locator.Pools.Pool(ctx, s.volume.Spec.PoolGUID)
	if err != nil {
		return poolFailure(err)
	}
	s.pool = p
	return nil
}

func poolFailure(err error) *failure {
	f := &failure{v1alpha1.ConditionProvisioned, v1alpha1.ReasonPoolUnavailable, waitForHost, err}
	if errors.Is(err, pool.ErrNotOwned) || errors.Is(err, zfs.ErrMismatch) && !errors.Is(err, zfs.ErrNoPool) {
		f.reason = v1alpha1.ReasonPoolNotOwned
	}
	return f
}

// carve finds the recorded zvol, or makes a new one.
func (r *Reconciler) carve(ctx context.Context, s *scope) error {
	ctx, cancel := context.WithTimeout(ctx, poolTimeout)
	defer cancel()
	var z zfs.Volume
	var err error
	if s.recorded() {
		z, err = r.Locator.find(ctx, s.volume, s.pool)
	} else {
		began := time.Now()
		z, err = r.make(ctx, s)
		metrics.Carved(began, err)
		r.Tracer.Did(telemetry.Work{
			Name: "carve", Object: s.volume, Phase: tracing.Begin, Began: began, Err: err, Place: s.place(),
		})
	}
	if err != nil {
		return carveFailure(err)
	}
	s.zvol = &z
	if next, known := r.Accounts.Next(s.volume.Spec.PoolGUID); known {
		s.accounted = next
	}
	return nil
}

func carveFailure(err error) *failure {
	f := &failure{condition: v1alpha1.ConditionProvisioned, reason: v1alpha1.ReasonCarveFailed, remedy: tryAgain, err: err}
	switch {
	case errors.Is(err, ErrLost):
		f.reason, f.remedy = v1alpha1.ReasonDataLoss, needsPerson
		f.err = fmt.Errorf("the recorded zvol is lost and is not made anew: %w", err)
	case errors.Is(err, errSourceGone):
		f.reason, f.remedy = v1alpha1.ReasonSourceGone, needsPerson
	case errors.Is(err, errSourceNotReady):
		f.reason, f.remedy = v1alpha1.ReasonSourceNotReady, waitForHost
	case errors.Is(err, zfs.ErrForeign):
		f.reason, f.remedy = v1alpha1.ReasonDatasetRefused, needsPerson
	case errors.Is(err, zfs.ErrNoSpace):
		// Unlike a drive's, a pool's space comes back without an event.
		f.reason, f.remedy = v1alpha1.ReasonNoSpace, waitForHost
	case errors.Is(err, zfs.ErrRefused):
		f.remedy = needsPerson
	case errors.Is(err, zfs.ErrNoPool), errors.Is(err, zfs.ErrSuspended), errors.Is(err, zfs.ErrUnhealthy),
		errors.Is(err, zfs.ErrReadOnly), errors.Is(err, zfs.ErrExporting):
		f.reason, f.remedy = v1alpha1.ReasonPoolUnavailable, waitForHost
	}
	return f
}

// reveal awaits the zvol's device.
func (r *Reconciler) reveal(ctx context.Context, s *scope) error {
	ctx, cancel := context.WithTimeout(ctx, poolTimeout)
	defer cancel()
	d, err := r.Locator.ZFS.Device(ctx, *s.zvol)
	if err == nil && d.SizeBytes < s.zvol.SizeBytes {
		err = fmt.Errorf("%s has %d bytes, and ZFS says %d", d.Path, d.SizeBytes, s.zvol.SizeBytes)
	}
	if err != nil {
		return &failure{v1alpha1.ConditionProvisioned, v1alpha1.ReasonCarveFailed, tryAgain, err}
	}
	s.device = d.Path
	return nil
}

// export makes the export exact.
func (r *Reconciler) export(ctx context.Context, s *scope) error {
	ctx, cancel := context.WithTimeout(ctx, targetTimeout)
	defer cancel()
	began, before := time.Now(), s.volume.Status.TargetNQN
	outcome, err := r.Exporter.Ensure(ctx, s.volume, s.device)
	if err != nil && !errors.Is(err, volume.ErrGone) || len(outcome.Changes) > 0 && !outcome.Readmitted {
		r.Tracer.Did(telemetry.Work{
			Name: "export", Object: s.volume, Phase: tracing.Begin, Late: before != "", Began: began, Err: err, Changes: outcome.Changes, Place: r.NodeName,
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
