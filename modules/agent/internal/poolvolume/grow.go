package poolvolume

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/distort-io/distort/modules/agent/internal/telemetry"
	"github.com/distort-io/distort/modules/agent/internal/zfs"
	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// grow makes the zvol as large as the spec asks, and shows that to the hosts. It
// never ends the pass: a volume that cannot grow is exported as it is.
func (r *Reconciler) grow(ctx context.Context, s *scope) error {
	if s.zvol.SizeBytes >= s.volume.Spec.Capacity && !unserved(s) {
		return nil
	}
	began := time.Now()
	err := r.enlargeAndServe(ctx, s)
	r.Tracer.Did(telemetry.Work{
		Name: "grow", Object: s.volume, Phase: tracing.Resize(s.volume.Spec.Capacity), Began: began, Err: err, Place: s.place(),
	})
	s.growth = &growth{}
	if err != nil {
		s.growth.failure = growthFailure(err)
	}
	return nil
}

func (r *Reconciler) enlargeAndServe(ctx context.Context, s *scope) error {
	if s.zvol.SizeBytes < s.volume.Spec.Capacity {
		z, err := r.enlarge(ctx, s)
		if err != nil {
			return err
		}
		s.zvol = &z
	}
	return r.serve(ctx, s)
}

func (r *Reconciler) enlarge(ctx context.Context, s *scope) (zfs.Volume, error) {
	ctx, cancel := context.WithTimeout(ctx, poolTimeout)
	defer cancel()
	if err := r.Locator.ZFS.Check(ctx, s.pool); err != nil {
		return zfs.Volume{}, err
	}
	return r.Locator.ZFS.Grow(ctx, s.pool, specOf(s.volume))
}

// unserved tells whether the hosts may still see an older size; see package
// partition.
func unserved(s *scope) bool {
	st := s.volume.Status
	c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionResized)
	return s.recorded() && (st.ActualCapacity != s.zvol.SizeBytes || c != nil && c.Reason == v1alpha1.ReasonResizeFailed)
}

// serve makes the target serve the zvol's size. The size of the device that the
// target took it from is read back, and the sample that contains the growth is
// published before the volume's own status says that it has grown: so nobody takes
// the space for free in between (design.md §5).
func (r *Reconciler) serve(ctx context.Context, s *scope) error {
	ctx, cancel := context.WithTimeout(ctx, targetTimeout)
	defer cancel()
	if err := r.Exporter.Revalidate(ctx, s.volume); err != nil {
		return err
	}
	d, err := r.Locator.ZFS.Device(ctx, *s.zvol)
	if err != nil {
		return fmt.Errorf("read the size back: %w", err)
	}
	if d.SizeBytes != s.zvol.SizeBytes || d.Path != s.device {
		return fmt.Errorf("read the size back: %s has %d bytes, the zvol has %d bytes at %s", d.Path, d.SizeBytes, s.zvol.SizeBytes, s.device)
	}
	return r.Accounts.Publish(ctx)
}

func growthFailure(err error) *failure {
	f := &failure{condition: v1alpha1.ConditionResized, reason: v1alpha1.ReasonResizeFailed, remedy: tryAgain, err: err}
	switch {
	case errors.Is(err, zfs.ErrNoSpace):
		f.reason, f.remedy = v1alpha1.ReasonGrowthNoSpace, waitForHost
	case errors.Is(err, zfs.ErrForeign), errors.Is(err, zfs.ErrRefused):
		f.remedy = needsPerson
	}
	return f
}
