package poolvolume

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/agent/internal/telemetry"
	"github.com/distort-io/distort/modules/agent/internal/zfs"
	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// modify gives the zvol the properties that the spec asks for by now. As grow, it
// never ends the pass: a volume that cannot be modified is exported as it is.
func (r *Reconciler) modify(ctx context.Context, s *scope) error {
	if zfs.SameCompression(s.zvol.Compression, s.volume.Spec.Compression) {
		if untold(s) {
			s.modification = &modification{}
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, poolTimeout)
	defer cancel()
	began := time.Now()
	z, err := r.Locator.ZFS.Modify(ctx, s.pool, specOf(s.volume))
	r.Tracer.Did(telemetry.Work{
		Name: "modify", Object: s.volume, Phase: tracing.Begin, Late: true, Began: began, Err: err, Place: s.place(),
	})
	s.modification = &modification{}
	if err != nil {
		s.modification.failure = modifyFailure(err)
		return nil
	}
	s.zvol = &z
	return nil
}

// untold tells whether the status does not speak yet of a change that an agent made
// which died, or that somebody else made after one had failed. A status that never had a
// compression is that of a volume which an earlier agent made.
func untold(s *scope) bool {
	st := s.volume.Status
	c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionModified)
	return st.Compression != "" && st.Compression != s.volume.Spec.Compression || c != nil && c.Status != metav1.ConditionTrue
}

func modifyFailure(err error) *failure {
	f := &failure{condition: v1alpha1.ConditionModified, reason: v1alpha1.ReasonModifyFailed, remedy: tryAgain, err: err}
	if errors.Is(err, zfs.ErrRefused) {
		f.reason, f.remedy = v1alpha1.ReasonModifyRefused, needsPerson
	}
	return f
}
