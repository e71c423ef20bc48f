package partition

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// statusOf is the status after a pass, from what the pass found. It is pure, and
// equal to the status before when nothing changed.
func statusOf(s *scope) v1alpha1.NVMePartitionStatus {
	p := s.partition
	uid := string(p.UID)
	st := *p.Status.DeepCopy()
	st.ExternalID = identity.ExternalID(uid)
	st.VolumeHandle = handle.Handle{Kind: handle.NVMePartition, Namespace: p.Namespace, Name: p.Name, UID: uid}.String()
	if s.slice != nil {
		st.AllocatedCapacity = s.slice.SizeBytes
		st.Backend = volume.Identity(*s.slice)
	}
	if s.exported != nil {
		st.NQN = identity.VolumeNQN(st.ExternalID)
		st.NamespaceUUID = identity.NamespaceUUID(uid)
		st.NamespaceNGUID = identity.NamespaceNGUID(uid)
		st.Portals = s.exported.Portals
	}
	st.State = stateOf(s)
	conditions(s, &st.Conditions)
	return st
}

func stateOf(s *scope) v1alpha1.PartitionState {
	switch f := s.failure; {
	case f == nil:
		return v1alpha1.PartitionExported
	case f.remedy == needsPerson:
		return v1alpha1.PartitionFailed
	case s.slice != nil || s.recorded():
		return v1alpha1.PartitionCreating
	}
	return v1alpha1.PartitionPending
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
				phase = tracing.Resize(s.partition.Spec.Size)
			}
			message = tracing.Note(s.partition, phase, message)
		}
		meta.SetStatusCondition(all, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: s.partition.Generation,
		})
	}
	set(v1alpha1.ConditionPlaced, metav1.ConditionTrue, v1alpha1.ReasonPlaced,
		"on node "+s.partition.Spec.NodeName+", drive "+s.partition.Spec.ParentDeviceSerialNumber)
	if s.drive.Serial != "" {
		set(v1alpha1.ConditionClaimAuthorized, metav1.ConditionTrue, v1alpha1.ReasonClaimMatches,
			"claim "+s.partition.Spec.ClaimRef.Namespace+"/"+s.partition.Spec.ClaimRef.Name+" owns the drive")
	}
	if s.slice != nil {
		set(v1alpha1.ConditionProvisioned, metav1.ConditionTrue, v1alpha1.ReasonCarved, carved(*s.slice)+" was read back")
	}
	if g := s.growth; g != nil {
		if g.failure == nil {
			set(v1alpha1.ConditionResized, metav1.ConditionTrue, v1alpha1.ReasonResized,
				fmt.Sprintf("the slice has %d bytes, and the target serves them", s.slice.SizeBytes))
		} else {
			set(v1alpha1.ConditionResized, metav1.ConditionFalse, g.failure.reason, g.failure.Error())
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

// carved names a slice.
func carved(v carve.Volume) string {
	if v.StoreName != "" {
		return "logical volume " + v.UUID + " in " + v.StoreName
	}
	return "partition " + v.UUID
}

// waiting is the status of a partition that is being deleted and waits.
func waiting(p *v1alpha1.NVMePartition, f *failure) v1alpha1.NVMePartitionStatus {
	reason := v1alpha1.ReasonDeleting
	if f.reason == v1alpha1.ReasonHostsConnected {
		reason = f.reason
	}
	st := *p.Status.DeepCopy()
	meta.SetStatusCondition(&st.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionExported, Status: metav1.ConditionFalse, Reason: reason,
		Message: tracing.Note(p, tracing.End, shorten(f.Error())), ObservedGeneration: p.Generation,
	})
	return st
}

// maxMessage bounds what tools and the kernel say, well below the 32,768 bytes
// that the API allows.
const maxMessage = 2048

func shorten(message string) string {
	if len(message) > maxMessage {
		return message[:maxMessage] + "…"
	}
	return message
}
