package access

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// remedy is what can help a pass that failed; see package partition.
type remedy int

const (
	tryAgain remedy = iota
	waitForEvent
	waitForHost
	needsPerson
)

// failure is why AccessReady is false.
type failure struct {
	reason string
	remedy remedy
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// maxMessage bounds what the kernel says; maxObserved is the API's limit, maxNote
// that of events.
const (
	maxMessage  = 2048
	maxObserved = 1024
	maxNote     = 1024
)

func shorten(s string, limit int) string {
	if len(s) > limit {
		return s[:limit]
	}
	return s
}

// admission is the status after admit; nil is success. The volume's format record
// goes with it, for the node that is about to stage the volume.
func admission(a *v1alpha1.NVMeVolumeAttachment, p v1alpha1.Slice, f *failure) v1alpha1.NVMeVolumeAttachmentStatus {
	st := *a.Status.DeepCopy()
	st.ObservedAttachmentID = a.Spec.AttachmentID
	if f != nil {
		setReady(a, &st, metav1.ConditionFalse, f.reason, f.Error())
		return st
	}
	if record := newer(st.Filesystem, p.GetFilesystemStatus()); record != nil {
		st.Filesystem = record.DeepCopy()
	}
	setReady(a, &st, metav1.ConditionTrue, v1alpha1.ReasonGranted, "the host was read back from the target's list")
	return st
}

// revocation is the status of a deleting attachment: with its evidence, or with
// what is missing.
func revocation(a *v1alpha1.NVMeVolumeAttachment, node string, evidence []export.Evidence, f *failure) v1alpha1.NVMeVolumeAttachmentStatus {
	st := *a.Status.DeepCopy()
	st.ObservedAttachmentID = a.Spec.AttachmentID
	if f != nil {
		setReady(a, &st, metav1.ConditionFalse, f.reason, f.Error())
		return st
	}
	var sources []string
	var at metav1.Time
	for _, e := range evidence {
		sources = append(sources, e.Source)
		if e.At.After(at.Time) {
			at = metav1.NewTime(e.At)
		}
	}
	st.Revocation = &v1alpha1.RevocationEvidence{
		Observed: shorten(strings.Join(observations(evidence), "; "), maxObserved), Source: strings.Join(sources, ", "), ObservedAt: at, Agent: node,
	}
	setReady(a, &st, metav1.ConditionFalse, v1alpha1.ReasonRevoked, "the host is fenced; the evidence is in status.revocation")
	return st
}

// proven tells whether the evidence that this attachment's host is fenced was
// written already, by an agent of this node that died before it dropped the
// finalizer. The host cannot have come back since: a deleting attachment admits
// nobody.
func proven(a *v1alpha1.NVMeVolumeAttachment, node string) bool {
	c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionAccessReady)
	return a.Status.Revocation != nil && a.Status.Revocation.Agent == node &&
		a.Status.ObservedAttachmentID == a.Spec.AttachmentID && c != nil && c.Reason == v1alpha1.ReasonRevoked
}

func setReady(a *v1alpha1.NVMeVolumeAttachment, st *v1alpha1.NVMeVolumeAttachmentStatus, status metav1.ConditionStatus, reason, message string) {
	message = shorten(message, maxMessage)
	if status == metav1.ConditionFalse && reason != v1alpha1.ReasonRevoked {
		message = tracing.Note(a, tracing.PhaseOf(a), message)
	}
	meta.SetStatusCondition(&st.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionAccessReady, Status: status, Reason: reason,
		Message: message, ObservedGeneration: a.Generation,
	})
}
