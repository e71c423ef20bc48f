package controlplanetest

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// takeOrDrop takes a snapshot, or takes it away.
func (s *Stub) takeOrDrop(ctx context.Context, b Behaviour, o *v1alpha1.Snapshot) error {
	old := o.DeepCopy()
	st := &o.Status
	switch {
	case o.DeletionTimestamp != nil && b.HoldDelete:
		setCondition(o, &st.Conditions, v1alpha1.ConditionReadyToUse, false, v1alpha1.ReasonDeleting, "held by the test")
		return s.patchStatus(ctx, o, old)
	case o.DeletionTimestamp != nil:
		controllerutil.RemoveFinalizer(o, v1alpha1.SliceFinalizer)
		return client.IgnoreNotFound(s.client.Patch(ctx, o, client.MergeFrom(old)))
	case st.BackendGUID != "":
		return nil
	case b.RefuseSnapshot != "":
		setCondition(o, &st.Conditions, v1alpha1.ConditionReadyToUse, false, b.RefuseSnapshot, "refused by the test")
		return s.patchStatus(ctx, o, old)
	}
	var v v1alpha1.Volume
	if err := s.client.Get(ctx, client.ObjectKey{Name: o.Spec.Source.Name}, &v); err != nil {
		return client.IgnoreNotFound(err)
	}
	at := metav1.Now()
	st.Size, st.CreatedAt, st.ReadyToUse, st.PoolGUID = v.Status.ActualCapacity, &at, true, PoolGUID
	st.Filesystem = v.Status.Filesystem.DeepCopy()
	st.BackendName, st.BackendGUID = v.Status.DatasetPath+"@"+o.Name, "2"
	setCondition(o, &st.Conditions, v1alpha1.ConditionReadyToUse, true, v1alpha1.ReasonSnapshotTaken, "taken")
	return s.patchStatus(ctx, o, old)
}
