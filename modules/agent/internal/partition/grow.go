package partition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/telemetry"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// grow makes the slice as large as the spec asks, and shows that to the hosts. It
// never ends the pass: a volume that cannot grow is exported as it is.
func (r *Reconciler) grow(ctx context.Context, s *scope) error {
	if s.slice.SizeBytes >= s.partition.Spec.Size && !unserved(s) {
		return nil
	}
	began := time.Now()
	err := r.enlargeAndServe(ctx, s)
	r.Tracer.Did(telemetry.Work{
		Name: "grow", Object: s.partition, Phase: tracing.Resize(s.partition.Spec.Size), Began: began, Err: err, Place: s.drive.Serial,
	})
	s.growth = &growth{}
	if err != nil {
		s.growth.failure = growthFailure(err)
	}
	return nil
}

func (r *Reconciler) enlargeAndServe(ctx context.Context, s *scope) error {
	if s.slice.SizeBytes < s.partition.Spec.Size {
		v, err := r.enlarge(ctx, s)
		if err != nil {
			return err
		}
		s.slice = &v
	}
	return r.serve(ctx, s)
}

// unserved tells whether the hosts may still see an older size: the slice is not
// the one that was last vouched for. What the target serves cannot be read, so
// this goes by what is recorded, and showing the size again does no harm.
func unserved(s *scope) bool {
	st := s.partition.Status
	c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionResized)
	return s.recorded() && (st.AllocatedCapacity != s.slice.SizeBytes || c != nil && c.Reason == v1alpha1.ReasonResizeFailed)
}

func (r *Reconciler) enlarge(ctx context.Context, s *scope) (carve.Volume, error) {
	ctx, cancel := context.WithTimeout(ctx, carveTimeout)
	defer cancel()
	return s.carver.Grow(ctx, s.partition, s.drive, func(ctx context.Context) ([]carve.Slice, error) { return r.placed(ctx, s.partition) })
}

// placed are the slices of the other partitions that were placed on the drive and
// are not carved, as far as their objects say: growth yields to them.
func (r *Reconciler) placed(ctx context.Context, p *v1alpha1.NVMePartition) ([]carve.Slice, error) {
	all, err := volume.OnDrive(ctx, r.Client, p.Spec.ParentDeviceSerialNumber)
	if err != nil {
		return nil, err
	}
	var out []carve.Slice
	for i := range all {
		o := r.written.Latest(&all[i])
		if o.UID != p.UID && o.DeletionTimestamp.IsZero() && !(&scope{partition: o}).recorded() {
			out = append(out, carve.Slice{UUID: volume.PartitionUUID(o), Name: identity.ExternalID(string(o.UID)), SizeBytes: o.Spec.Size})
		}
	}
	return out, nil
}

// serve makes the target serve the slice's size: it is shown to the hosts, and
// the size of the device that the target took it from is read back.
func (r *Reconciler) serve(ctx context.Context, s *scope) error {
	ctx, cancel := context.WithTimeout(ctx, targetTimeout)
	defer cancel()
	if err := r.Exporter.Revalidate(ctx, s.partition); err != nil {
		return err
	}
	now, err := s.carver.Find(ctx, s.partition, s.drive)
	if err != nil {
		return fmt.Errorf("read the size back: %w", err)
	}
	if now.SizeBytes != s.slice.SizeBytes || now.DevicePath != s.slice.DevicePath {
		return fmt.Errorf("read the size back: %s has %d bytes, carved were %d bytes at %s", now.DevicePath, now.SizeBytes, s.slice.SizeBytes, s.slice.DevicePath)
	}
	return nil
}

func growthFailure(err error) *failure {
	f := &failure{condition: v1alpha1.ConditionResized, reason: v1alpha1.ReasonResizeFailed, remedy: tryAgain, err: err}
	switch {
	case errors.Is(err, carve.ErrNoSpace):
		f.reason, f.remedy = v1alpha1.ReasonGrowthNoSpace, needsPerson
	case errors.Is(err, carve.ErrForeign), errors.Is(err, carve.ErrDamaged), errors.Is(err, carve.ErrInvalid):
		f.remedy = needsPerson
	}
	return f
}
