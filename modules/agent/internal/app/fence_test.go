package app_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/agent/internal/volume/volumetest"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// An agent that comes back finds a revocation that nobody finished. Whatever it
// looks at first, and whether the node kept its kernel, the host is not admitted
// for a moment: the export comes up without it, and then the revocation ends.
func restartFinishesAPendingRevocationBeforeItServes(t *testing.T, on site) {
	for name, c := range map[string]struct {
		reboot bool
		first  func(*agent, *v1alpha1.NVMePartition, *v1alpha1.NVMeVolumeAttachment) error
	}{
		"agent, the volume first": {false, func(a *agent, p *v1alpha1.NVMePartition, _ *v1alpha1.NVMeVolumeAttachment) error {
			_, err := a.reconcilePartition(p)
			return err
		}},
		"agent, the attachment first": {false, func(a *agent, _ *v1alpha1.NVMePartition, at *v1alpha1.NVMeVolumeAttachment) error {
			_, err := a.reconcileAttachment(at)
			return err
		}},
		"node, the volume first": {true, func(a *agent, p *v1alpha1.NVMePartition, _ *v1alpha1.NVMeVolumeAttachment) error {
			_, err := a.reconcilePartition(p)
			return err
		}},
		"node, the attachment first": {true, func(a *agent, _ *v1alpha1.NVMePartition, at *v1alpha1.NVMeVolumeAttachment) error {
			_, err := a.reconcileAttachment(at)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := on.open(t)
			a, p := w.exported()
			at := w.node.Attachment(p, consumer)
			w.create(at)
			a.mustSettle()
			host, err := w.node.Connect(at.Spec.NodeID, p)
			if err != nil {
				t.Fatal(err)
			}
			a.Kill()
			w.delete(at) // nobody is there to hear it
			if c.reboot {
				w.node.Reboot()
			}
			w.admissions()
			next := w.boot()
			if err := c.first(next, p, at); err != nil {
				t.Fatal(err)
			}
			if w.admits(at, p) {
				t.Error("the host is admitted after the first pass")
			}
			next.mustSettle()
			for _, line := range w.admissions() {
				t.Errorf("a host was admitted: %s", line)
			}
			if w.reload(at) {
				t.Errorf("the attachment is still there: %s", message(at.Status.Conditions, v1alpha1.ConditionAccessReady))
			}
			if _, err := w.node.Connect(at.Spec.NodeID, p); err == nil {
				t.Error("the host connects after it was fenced")
			}
			if err := host.Write(1, "late"); err == nil && !c.reboot { // its connection died with the old kernel
				t.Error("the host writes after it was fenced")
			}
			s, _ := w.state(p)
			if len(s.AllowedHosts) != 0 || len(s.Namespaces) != 1 || !s.Namespaces[0].Enabled || len(s.Ports) != 1 {
				t.Errorf("export = %+v, want it up for nobody", s)
			}
		})
	}
}

// The evidence outlives the attachment in an event on the volume.
func evidenceIsKeptAsAnEventOnTheVolume(t *testing.T, on site) {
	w := on.open(t)
	a, p := w.exported()
	at := w.node.Attachment(p, consumer)
	w.create(at)
	a.mustSettle()
	a.events() // what was before
	w.delete(at)
	a.mustSettle()
	got := a.events()
	if len(got) != 1 {
		t.Fatalf("events = %q, want one", got)
	}
	for _, part := range append(w.proof(), "Normal Revoked Node "+consumer+" was fenced", at.Spec.AttachmentID, nodeName) {
		if !strings.Contains(got[0], part) {
			t.Errorf("event %q does not say %q", got[0], part)
		}
	}
	if len(got[0]) > 1024+len("Normal Revoked ") {
		t.Errorf("the event's note has more than 1024 bytes: %d", len(got[0]))
	}
}

// Attachments of one name are told apart: what was proven of an earlier one is no
// proof for its successor.
func TestEvidenceOfAnEarlierAttachmentProvesNothing(t *testing.T) {
	w, a, p := exported(t)
	at := w.node.Attachment(p, consumer)
	w.create(at)
	a.mustSettle()
	setStatus(w, at, func(at *v1alpha1.NVMeVolumeAttachment) {
		at.Status.ObservedAttachmentID = string(volumetest.UID("an earlier one"))
		at.Status.Revocation = &v1alpha1.RevocationEvidence{Observed: "all is well", Source: "configfs", Agent: nodeName}
		at.Status.Conditions[0].Status, at.Status.Conditions[0].Reason = "False", v1alpha1.ReasonRevoked
	})
	w.delete(at)
	w.node.Kernel.Trace()
	next := w.boot()
	next.mustSettle()
	if trace := strings.Join(w.node.Kernel.Trace(), "\n"); !strings.Contains(trace, "/enable 0") {
		t.Errorf("the host was let go without a fence:\n%s", trace)
	}
	if w.reload(at) {
		t.Error("the attachment is still there")
	}
}

// A volume that was deleted and made again under its name does not inherit the
// attachment of its namesake.
func recreatedVolumeAdmitsNobodyOfItsEarlierLife(t *testing.T, on site) {
	w := on.open(t)
	a, p := w.exported()
	at := w.node.Attachment(p, consumer)
	w.create(at)
	a.mustSettle()
	w.delete(at)
	w.delete(p)
	a.mustSettle()
	if w.reload(p) {
		t.Fatal("the volume is still there")
	}
	again := w.node.Partition("pvc-1", sliceSize)
	again.UID = volumetest.UID("pvc-1 again")
	w.create(again)
	late := w.node.Attachment(p, consumer) // of the earlier life
	w.create(late)
	_ = a.settle()
	w.reload(late)
	if got := condition(late.Status.Conditions, v1alpha1.ConditionAccessReady); got != "False/"+v1alpha1.ReasonVolumeMismatch {
		t.Errorf("AccessReady = %s", got)
	}
	s, ok := w.state(again)
	if !ok || len(s.AllowedHosts) != 0 {
		t.Errorf("export of the new volume: %v, hosts %v", ok, s.AllowedHosts)
	}
	if diff := cmp.Diff(identity.VolumeNQN(identity.ExternalID(string(again.UID))), s.NQN); diff != "" {
		t.Error(diff)
	}
}
