package app_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/distort-io/distort/modules/agent/internal/volume/volumetest"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest"
)

// keep is a finalizer of the test: it lets it look at an attachment that the agent
// has let go.
const keep = "example.org/keep"

func listener() nvmeof.Listener {
	return nvmeof.Listener{Transport: nvmeof.TCP, Address: addr("10.0.0.1"), Port: 4420}
}

// exported is a world with one exported partition.
func exported(t *testing.T, change ...func(*v1alpha1.NVMePartition)) (*world, *agent, *v1alpha1.NVMePartition) {
	t.Helper()
	w := newWorld(t)
	a, p := w.exported(change...)
	return w, a, p
}

// exported makes a partition that an agent exports.
func (w *world) exported(change ...func(*v1alpha1.NVMePartition)) (*agent, *v1alpha1.NVMePartition) {
	w.t.Helper()
	p := volumeOf(w)
	for _, c := range change {
		c(p)
	}
	w.create(p)
	a := w.boot()
	a.mustSettle()
	w.reload(p)
	return a, p
}

func shared(p *v1alpha1.NVMePartition) {
	p.Spec.AccessMode, p.Spec.AccessType, p.Spec.Filesystem = v1alpha1.ReadWriteMany, v1alpha1.AccessBlock, ""
}

// Fault DV11: the list is in force, for every host that is not on it.
func attachAdmitsExactlyItsHostAndWritesOnce(t *testing.T, on site) {
	w := on.open(t)
	a, p := w.exported()
	at := w.node.Attachment(p, consumer)
	w.create(at)
	got := a.written(a.mustSettle)
	if diff := cmp.Diff(map[string]int{"NVMeVolumeAttachment/status": 1}, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	w.reload(at)
	if c := condition(at.Status.Conditions, v1alpha1.ConditionAccessReady); c != "True/Granted" || at.Status.ObservedAttachmentID != at.Spec.AttachmentID {
		t.Errorf("AccessReady = %s for attachment %q", c, at.Status.ObservedAttachmentID)
	}
	if _, err := w.node.Connect(consumer, p); err != nil {
		t.Errorf("the host cannot connect: %v", err)
	}
	if _, err := w.node.Connect("other", p); err == nil {
		t.Error("another host can connect")
	}
	if got := a.written(a.mustSettle); len(got) != 0 {
		t.Errorf("an idle agent wrote %v", got)
	}
}

func detachFencesAndLeavesEvidence(t *testing.T, on site) {
	w := on.open(t)
	a, p := w.exported()
	at := w.node.Attachment(p, consumer)
	at.Finalizers = append(at.Finalizers, keep)
	w.create(at)
	a.mustSettle()
	host, err := w.node.Connect(at.Spec.NodeID, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Write(1, "before"); err != nil {
		t.Fatal(err)
	}
	w.delete(at)
	got := a.written(a.mustSettle)
	if diff := cmp.Diff(map[string]int{"NVMeVolumeAttachment/status": 1, "NVMeVolumeAttachment": 1}, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if err := host.Write(1, "after"); err == nil {
		t.Error("the host writes after it was fenced")
	}
	w.reload(at)
	r := at.Status.Revocation
	if r == nil || r.Agent != nodeName || r.Source != w.proof()[0] || r.ObservedAt.IsZero() || !strings.Contains(r.Observed, at.Spec.HostNQN) {
		t.Errorf("evidence = %+v", r)
	}
	if c := condition(at.Status.Conditions, v1alpha1.ConditionAccessReady); c != "False/Revoked" {
		t.Errorf("AccessReady = %s", c)
	}
	if controllerutil.ContainsFinalizer(at, v1alpha1.AccessFinalizer) {
		t.Error("the finalizer is still there")
	}
	s, _ := w.state(p)
	if len(s.AllowedHosts) != 0 || !s.Namespaces[0].Enabled {
		t.Errorf("subsystem = %+v, want nobody admitted and the namespace enabled", s)
	}
}

func takeoverAdmitsTheNextHostOnlyAfterTheLast(t *testing.T, on site) {
	w := on.open(t)
	a, p := w.exported()
	first := w.node.Attachment(p, "consumer-0")
	w.create(first)
	a.mustSettle()
	old, err := w.node.Connect(first.Spec.NodeID, p)
	if err != nil {
		t.Fatal(err)
	}
	w.delete(first)
	a.mustSettle()
	second := w.node.Attachment(p, "consumer-1")
	if second.Name != first.Name {
		t.Fatalf("names %q and %q differ: two attachments of a single-writer volume could exist", first.Name, second.Name)
	}
	w.create(second)
	a.mustSettle()
	s, _ := w.state(p)
	if diff := cmp.Diff([]string{second.Spec.HostNQN}, s.AllowedHosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	if err := old.Write(1, "stale"); err == nil {
		t.Error("the old host writes to the new one's volume")
	}
}

func sharedVolumeKeepsItsOtherHosts(t *testing.T, on site) {
	w := on.open(t)
	a, p := w.exported(shared)
	one, two := w.node.Attachment(p, "consumer-0"), w.node.Attachment(p, "consumer-1")
	w.create(one)
	w.create(two)
	a.mustSettle()
	if !w.admits(one, p) || !w.admits(two, p) {
		t.Fatal("not both are admitted")
	}
	w.delete(one)
	a.mustSettle()
	if w.admits(one, p) || !w.admits(two, p) {
		t.Error("want only the second host admitted")
	}
	if _, err := w.node.Connect(two.Spec.NodeID, p); err != nil {
		t.Errorf("the host that stays cannot connect: %v", err)
	}
}

func attachmentsThatAreRefused(t *testing.T, on site) {
	for name, c := range map[string]struct {
		change   func(*v1alpha1.NVMeVolumeAttachment)
		want     string
		mentions string
	}{
		"volume in another life": {
			change: func(a *v1alpha1.NVMeVolumeAttachment) { a.Spec.VolumeRef.UID = volumetest.UID("before") },
			want:   "False/VolumeMismatch", mentions: string(volumetest.UID("before")),
		},
		"volume that does not exist": {
			change: func(a *v1alpha1.NVMeVolumeAttachment) { a.Spec.VolumeRef.Name = "pvc-none" },
			want:   "False/VolumeMismatch", mentions: "pvc-none",
		},
		"volume of the pool family": {
			change: func(a *v1alpha1.NVMeVolumeAttachment) {
				a.Spec.VolumeRef.Kind, a.Spec.VolumeRef.Namespace = v1alpha1.KindVolume, ""
			},
			want: "False/VolumeMismatch", mentions: "Volume",
		},
		"second attachment of a single-writer volume": {
			change: func(a *v1alpha1.NVMeVolumeAttachment) { a.Name = "att-mine" },
			want:   "False/GrantFailed", mentions: "att-mine",
		},
		"host NQN of another node": {
			change: func(a *v1alpha1.NVMeVolumeAttachment) { a.Spec.HostNQN = identity.HostNQN("other") },
			want:   "False/GrantFailed", mentions: identity.HostNQN("other"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := on.open(t)
			a, p := w.exported()
			at := w.node.Attachment(p, consumer)
			c.change(at)
			w.create(at)
			if err := a.settle(); !errors.Is(err, reconcile.TerminalError(nil)) {
				t.Errorf("error = %v, want a terminal one", err)
			}
			w.reload(at)
			if got := condition(at.Status.Conditions, v1alpha1.ConditionAccessReady); got != c.want {
				t.Errorf("AccessReady = %s, want %s", got, c.want)
			}
			if m := message(at.Status.Conditions, v1alpha1.ConditionAccessReady); !strings.Contains(m, c.mentions) {
				t.Errorf("message %q does not mention %q", m, c.mentions)
			}
			if s, _ := w.state(p); len(s.AllowedHosts) != 0 {
				t.Errorf("hosts = %v, want none", s.AllowedHosts)
			}
			w.delete(at)
			_ = a.settle()
			if w.reload(at) {
				t.Errorf("detach is stuck: %s", message(at.Status.Conditions, v1alpha1.ConditionAccessReady))
			}
		})
	}
}

func attachWaitsForTheExport(t *testing.T, on site) {
	w := on.open(t)
	p := w.node.Partition("pvc-1", sliceSize)
	w.create(p)
	at := w.node.Attachment(p, consumer)
	w.create(at)
	a := w.boot()
	if _, err := a.reconcileAttachment(at); err != nil {
		t.Fatal(err)
	}
	w.reload(at)
	if got := condition(at.Status.Conditions, v1alpha1.ConditionAccessReady); got != "False/VolumeNotExported" {
		t.Errorf("AccessReady = %s before the export", got)
	}
	a.mustSettle()
	w.reload(at)
	if got := condition(at.Status.Conditions, v1alpha1.ConditionAccessReady); got != "True/Granted" {
		t.Errorf("AccessReady = %s after it", got)
	}
}

func nobodyIsAdmittedWithoutOurFinalizer(t *testing.T, on site) {
	w := on.open(t)
	a, p := w.exported()
	at := w.node.Attachment(p, consumer)
	at.Finalizers = nil
	w.create(at)
	if _, err := a.reconcileAttachment(at); err != nil {
		t.Fatal(err)
	}
	if w.admits(at, p) {
		t.Error("the host is admitted before the attachment has the finalizer")
	}
	a.mustSettle()
	w.reload(at)
	if !controllerutil.ContainsFinalizer(at, v1alpha1.AccessFinalizer) || !w.admits(at, p) {
		t.Errorf("finalizers %v, admitted %v: want both in the end", at.Finalizers, w.admits(at, p))
	}
}

func deletionWaitsForAttachmentsAndNamesThem(t *testing.T, on site) {
	w := on.open(t)
	a, p := w.exported()
	at := w.node.Attachment(p, consumer)
	w.create(at)
	a.mustSettle()
	w.delete(p)
	a.mustSettle()
	w.reload(p)
	if got := condition(p.Status.Conditions, v1alpha1.ConditionExported); got != "False/Deleting" {
		t.Errorf("Exported = %s", got)
	}
	if m := message(p.Status.Conditions, v1alpha1.ConditionExported); !strings.Contains(m, at.Name) || !strings.Contains(m, consumer) {
		t.Errorf("message %q does not name the attachment", m)
	}
	if _, ok := w.state(p); !ok || len(w.node.Slices()) != 1 {
		t.Error("the volume was taken from under its host")
	}
	w.delete(at)
	a.mustSettle()
	if w.reload(p) || len(w.node.Slices()) != 0 {
		t.Error("the deletion did not go on after the detach")
	}
}

func aDeletingVolumeAdmitsNobodyNew(t *testing.T, on site) {
	w := on.open(t)
	a, p := w.exported(shared)
	w.create(w.node.Attachment(p, "consumer-0"))
	a.mustSettle()
	w.delete(p)
	late := w.node.Attachment(p, "consumer-1")
	w.create(late)
	a.mustSettle()
	w.reload(late)
	if got := condition(late.Status.Conditions, v1alpha1.ConditionAccessReady); got != "False/VolumeNotExported" || w.admits(late, p) {
		t.Errorf("AccessReady = %s, admitted %v", got, w.admits(late, p))
	}
}

func formatRecordTravelsFromAttachmentToVolumeAndOn(t *testing.T, on site) {
	w := on.open(t)
	a, p := w.exported()
	first := w.node.Attachment(p, "consumer-0")
	w.create(first)
	a.mustSettle()
	record := volumetest.Formatted(p)
	started := &v1alpha1.FilesystemStatus{Type: record.Type, UUID: record.UUID, FormatStartedAt: record.FormatStartedAt}
	setStatus(w, first, func(at *v1alpha1.NVMeVolumeAttachment) { at.Status.Filesystem = started })
	if got := a.written(a.mustSettle); len(got) != 0 {
		t.Errorf("a format that is not finished was written to the volume: %v", got)
	}
	setStatus(w, first, func(at *v1alpha1.NVMeVolumeAttachment) { at.Status.Filesystem = record })
	if diff := cmp.Diff(map[string]int{"NVMePartition/status": 1}, a.written(a.mustSettle)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	w.delete(first)
	a.mustSettle()
	second := w.node.Attachment(p, "consumer-1")
	w.create(second)
	if diff := cmp.Diff(map[string]int{"NVMeVolumeAttachment/status": 1}, a.written(a.mustSettle)); diff != "" {
		t.Errorf("writes of the second attach (-want +got):\n%s", diff)
	}
	w.reload(second)
	if diff := cmp.Diff(record, second.Status.Filesystem); diff != "" {
		t.Errorf("record that the second node gets (-want +got):\n%s", diff)
	}
}

// A further reader is let in when the first one's record is on the volume, and not
// before: the first one writes until then.
func manyReadACopyOnceItsJournalIsReplayed(t *testing.T, on site) {
	w := on.open(t)
	a, p := w.exported(func(p *v1alpha1.NVMePartition) { p.Spec.AccessMode = v1alpha1.ReadOnlyMany })
	setStatus(w, p, func(p *v1alpha1.NVMePartition) { p.Status.Filesystem = volumetest.Formatted(p) })
	first, second := w.node.Attachment(p, "consumer-0"), w.node.Attachment(p, "consumer-1")
	second.Name = identity.SharedAttachmentName(string(p.UID), "consumer-1")
	w.create(first)
	w.create(second)
	if err := a.settle(); !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("error = %v, want a terminal one", err)
	}
	w.reload(second)
	if c := condition(second.Status.Conditions, v1alpha1.ConditionAccessReady); !w.admits(first, p) || w.admits(second, p) || c != "False/GrantFailed" {
		t.Errorf("admitted %v and %v (AccessReady = %s), want the first alone", w.admits(first, p), w.admits(second, p), c)
	}
	w.reload(first)
	setStatus(w, first, func(at *v1alpha1.NVMeVolumeAttachment) {
		now := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
		at.Status.Filesystem = volumetest.Formatted(p)
		at.Status.Filesystem.RecoveredAt = &now
	})
	_ = a.settle() // its first pass may see the second one refused still
	a.mustSettle()
	w.reload(p)
	if !p.Status.Filesystem.Recovered() || !w.admits(first, p) || !w.admits(second, p) {
		t.Errorf("record %+v, admitted %v and %v, want both", p.Status.Filesystem, w.admits(first, p), w.admits(second, p))
	}
}

func anUnfinishedFormatIsRecordedBeforeItsAttachmentGoes(t *testing.T, on site) {
	w := on.open(t)
	a, p := w.exported()
	at := w.node.Attachment(p, consumer)
	w.create(at)
	a.mustSettle()
	began := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	want := &v1alpha1.FilesystemStatus{Type: v1alpha1.Ext4, UUID: identity.FilesystemUUID(string(p.UID)), FormatStartedAt: &began}
	setStatus(w, at, func(at *v1alpha1.NVMeVolumeAttachment) { at.Status.Filesystem = want })
	w.delete(at)
	a.mustSettle()
	w.reload(p)
	if diff := cmp.Diff(want, p.Status.Filesystem); diff != "" {
		t.Errorf("record of the volume (-want +got):\n%s", diff)
	}
}

// A host that somebody let in by hand, past all attachments, holds the volume where
// the kernel shows it (known fault DV10).
func TestAVolumeStaysWhileAHostIsConnected(t *testing.T) {
	w := newWorld(t)
	w.node.Kernel = nvmeoftest.NewKernel(nvmeoftest.WithDebugfs())
	p := w.node.Partition("pvc-1", sliceSize)
	w.create(p)
	a := w.boot()
	a.mustSettle()
	const host = "nqn.2014-08.org.example:by-hand"
	nqn := volumetest.NQN(p)
	for _, err := range []error{
		w.node.Kernel.Mkdir("hosts/" + host),
		w.node.Kernel.Symlink("hosts/"+host, "subsystems/"+nqn+"/allowed_hosts/"+host),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	guest, err := w.node.Kernel.Connect(host, nqn, listener())
	if err != nil {
		t.Fatal(err)
	}
	w.delete(p)
	a.mustSettle()
	w.reload(p)
	if got := condition(p.Status.Conditions, v1alpha1.ConditionExported); got != "False/"+v1alpha1.ReasonHostsConnected {
		t.Errorf("Exported = %s", got)
	}
	if m := message(p.Status.Conditions, v1alpha1.ConditionExported); !strings.Contains(m, host) {
		t.Errorf("message %q does not name the host", m)
	}
	if !guest.Live() {
		t.Error("the host was cut off")
	}
	w.node.Kernel.Disconnect(guest)
	a.mustSettle()
	if w.reload(p) {
		t.Errorf("the volume is still there: %s", message(p.Status.Conditions, v1alpha1.ConditionExported))
	}
}

// What distort-manager said of a silent agent is overtaken by what the agent has
// to say.
func agentOvertakesWhatWasSaidOfItsSilence(t *testing.T, on site) {
	w := on.open(t)
	a, p := w.exported()
	at := w.node.Attachment(p, consumer)
	at.Finalizers = append(at.Finalizers, keep)
	w.create(at)
	a.mustSettle()
	setStatus(w, at, func(at *v1alpha1.NVMeVolumeAttachment) {
		c := &at.Status.Conditions[0]
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonStorageNodeSilent, "silent"
	})
	w.delete(at)
	a.mustSettle()
	w.reload(at)
	if got := condition(at.Status.Conditions, v1alpha1.ConditionAccessReady); got != "False/Revoked" {
		t.Errorf("AccessReady = %s", got)
	}
}

// A drive that does not answer holds the drain: nothing is released, and the
// condition says which proof is missing.
func TestDetachWithoutProofReleasesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a, p := exported(t)
		at := w.node.Attachment(p, consumer)
		w.create(at)
		a.mustSettle()
		host, err := w.node.Kernel.Connect(at.Spec.HostNQN, volumetest.NQN(p), listener())
		if err != nil {
			t.Fatal(err)
		}
		if err := host.Submit(1, "in flight"); err != nil {
			t.Fatal(err)
		}
		s, _ := w.state(p)
		device := s.Namespaces[0].DevicePath
		w.node.Kernel.Hang(device)
		w.delete(at)
		_, err = a.access.Reconcile(context.Background(), requestOf(at))
		if err == nil || errors.Is(err, reconcile.TerminalError(nil)) {
			t.Errorf("error = %v, want one that is tried again", err)
		}
		if !w.reload(at) {
			t.Fatal("the attachment went without a proof")
		}
		if got := condition(at.Status.Conditions, v1alpha1.ConditionAccessReady); got != "False/Revoking" || at.Status.Revocation != nil {
			t.Errorf("AccessReady = %s, evidence %+v", got, at.Status.Revocation)
		}
		if m := message(at.Status.Conditions, v1alpha1.ConditionAccessReady); !strings.Contains(m, "drain") {
			t.Errorf("message %q does not say what is missing", m)
		}
		w.node.Kernel.Release(device)
		synctest.Wait()
		a.mustSettle()
		if w.reload(at) {
			t.Error("the attachment is still there after the drive came back")
		}
	})
}
