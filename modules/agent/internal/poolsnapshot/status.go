package poolsnapshot

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// statusOf is the status after an attempt to take the snapshot. It is pure.
func statusOf(s *v1alpha1.Snapshot, t taken, err error) v1alpha1.SnapshotStatus {
	st := *s.Status.DeepCopy()
	if err != nil {
		reason, f := v1alpha1.ReasonSnapshotFailed, (*failure)(nil)
		if errors.As(err, &f) {
			reason = f.reason
		}
		set(s, &st, metav1.ConditionFalse, reason, tracing.Note(s, tracing.Begin, shorten(err.Error())))
		return st
	}
	at := metav1.NewTime(t.snapshot.CreatedAt)
	st.Size, st.CreatedAt, st.ReadyToUse = t.snapshot.SizeBytes, &at, true
	st.BackendName, st.BackendGUID, st.PoolGUID = t.snapshot.Name, t.snapshot.GUID, t.pool
	st.Filesystem = t.filesystem.DeepCopy()
	set(s, &st, metav1.ConditionTrue, v1alpha1.ReasonSnapshotTaken, "snapshot "+t.snapshot.Name+" was read back")
	return st
}

// deleting is the status of a snapshot whose deletion waits.
func deleting(s *v1alpha1.Snapshot, err error) v1alpha1.SnapshotStatus {
	st := *s.Status.DeepCopy()
	st.ReadyToUse = false
	reason, f := v1alpha1.ReasonDeleting, (*failure)(nil)
	if errors.As(err, &f) && f.reason == v1alpha1.ReasonHasDependants {
		reason = f.reason
	}
	set(s, &st, metav1.ConditionFalse, reason, tracing.Note(s, tracing.End, shorten(err.Error())))
	return st
}

func set(s *v1alpha1.Snapshot, st *v1alpha1.SnapshotStatus, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&st.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReadyToUse, Status: status, Reason: reason, Message: message, ObservedGeneration: s.Generation,
	})
}

// maxMessage bounds what programs say.
const maxMessage = 2048

func shorten(message string) string {
	if len(message) > maxMessage {
		return message[:maxMessage] + "…"
	}
	return message
}
