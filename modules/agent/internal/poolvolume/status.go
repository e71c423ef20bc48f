package poolvolume

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/agent/internal/zfs"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// statusOf is the status after a pass, from what the pass found. It is pure, and
// equal to the status before when nothing changed.
func statusOf(s *scope) v1alpha1.VolumeStatus {
	uid := string(s.volume.UID)
	st := *s.volume.Status.DeepCopy()
	if s.zvol != nil {
		st.DatasetPath, st.DatasetGUID = s.zvol.Dataset, s.zvol.GUID
		if s.growth == nil || s.growth.failure == nil || st.ActualCapacity == 0 {
			// A growth that was not published yet is not told yet.
			st.ActualCapacity = s.zvol.SizeBytes
		}
		if st.Filesystem == nil && s.filesystem != nil {
			st.Filesystem = s.filesystem.DeepCopy()
			st.Filesystem.RecoveredAt = nil // that is the source's
		}
		if wanted := s.volume.Spec.Compression; wanted == "" || zfs.SameCompression(s.zvol.Compression, wanted) {
			st.Compression = wanted
		}
		if st.AccountedGeneration == 0 {
			st.AccountedGeneration = s.accounted
		}
	}
	if s.exported != nil {
		st.TargetNQN = identity.VolumeNQN(identity.ExternalID(uid))
		st.DeviceGUID = identity.NamespaceUUID(uid)
		st.Portals = s.exported.Portals
		st.PortalHost, st.PortalPort = "", 0
		if len(st.Portals) > 0 {
			st.PortalHost, st.PortalPort = st.Portals[0].Address, st.Portals[0].Port
		}
	}
	st.State = stateOf(s)
	conditions(s, &st.Conditions)
	return st
}

func stateOf(s *scope) v1alpha1.VolumeState {
	switch f := s.failure; {
	case f == nil:
		return v1alpha1.VolumeReadyToPublish
	case f.remedy == needsPerson:
		return v1alpha1.VolumeError
	case s.zvol != nil || s.recorded():
		return v1alpha1.VolumeReady
	}
	return v1alpha1.VolumePending
}

// conditions sets what the pass knows. A condition that it did not come to keeps
// what was last seen, but for Exported: an export that was not read back is not
// vouched for.
func conditions(s *scope, all *[]metav1.Condition) {
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		message = shorten(message)
		if status == metav1.ConditionFalse {
			phase := tracing.Begin
			if kind == v1alpha1.ConditionResized {
				phase = tracing.Resize(s.volume.Spec.Capacity)
			}
			message = tracing.Note(s.volume, phase, message)
		}
		meta.SetStatusCondition(all, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: s.volume.Generation,
		})
	}
	set(v1alpha1.ConditionPlaced, metav1.ConditionTrue, v1alpha1.ReasonPlaced,
		fmt.Sprintf("on node %s, pool %s", s.volume.Spec.OwnerNode, s.volume.Spec.PoolGUID))
	if s.zvol != nil {
		set(v1alpha1.ConditionProvisioned, metav1.ConditionTrue, v1alpha1.ReasonCarved, "zvol "+s.zvol.Dataset+" was read back")
	}
	if g := s.growth; g != nil {
		if g.failure == nil {
			set(v1alpha1.ConditionResized, metav1.ConditionTrue, v1alpha1.ReasonResized,
				fmt.Sprintf("the zvol has %d bytes, and the target serves them", s.zvol.SizeBytes))
		} else {
			set(v1alpha1.ConditionResized, metav1.ConditionFalse, g.failure.reason, g.failure.Error())
		}
	}
	if m := s.modification; m != nil {
		if m.failure == nil {
			set(v1alpha1.ConditionModified, metav1.ConditionTrue, v1alpha1.ReasonModified, "the zvol has compression "+s.zvol.Compression)
		} else {
			set(v1alpha1.ConditionModified, metav1.ConditionFalse, m.failure.reason, m.failure.Error())
		}
	}
	f := s.failure
	if f == nil {
		set(v1alpha1.ConditionExported, metav1.ConditionTrue, v1alpha1.ReasonExported, "the target was read back and is as it should be")
		return
	}
	set(f.condition, metav1.ConditionFalse, f.reason, f.Error())
	if f.condition != v1alpha1.ConditionExported && meta.FindStatusCondition(*all, v1alpha1.ConditionExported) != nil {
		set(v1alpha1.ConditionExported, metav1.ConditionFalse, v1alpha1.ReasonExportFailed, "not verified: "+f.Error())
	}
}

// waiting is the status of a volume that is being deleted and waits.
func waiting(v *v1alpha1.Volume, f *failure) v1alpha1.VolumeStatus {
	reason := v1alpha1.ReasonDeleting
	if f.reason == v1alpha1.ReasonHostsConnected || f.reason == v1alpha1.ReasonHasDependants {
		reason = f.reason
	}
	st := *v.Status.DeepCopy()
	st.State = v1alpha1.VolumeDeleting
	meta.SetStatusCondition(&st.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionExported, Status: metav1.ConditionFalse, Reason: reason,
		Message: tracing.Note(v, tracing.End, shorten(f.Error())), ObservedGeneration: v.Generation,
	})
	return st
}

// maxMessage bounds what programs and the kernel say.
const maxMessage = 2048

func shorten(message string) string {
	if len(message) > maxMessage {
		return message[:maxMessage] + "…"
	}
	return message
}
