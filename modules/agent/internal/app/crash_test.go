package app_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/agent/internal/volume/volumetest"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// killers end an agent at its n-th effect of one kind, n from 1.
var killers = map[string]func(w *world, a *agent, n int){
	"configfs":           func(w *world, _ *agent, n int) { w.node.Kernel.KillAt(n) },
	"before a program":   func(w *world, _ *agent, n int) { w.node.Drive.Runner().KillBefore(n - 1) },
	"after a program":    func(w *world, _ *agent, n int) { w.node.Drive.Runner().KillAfter(n - 1) },
	"before an API call": func(_ *world, a *agent, n int) { a.KillAtWrite(n, false) },
	"after an API call":  func(_ *world, a *agent, n int) { a.KillAtWrite(n, true) },
}

// crash arranges a world, kills the agent at each effect of an action, lets the
// next agent finish, and checks the outcome. It answers how often the agent died.
func crash(t *testing.T, arrange func(*world), action func(*world), check func(*testing.T, *world)) {
	t.Helper()
	for name, arm := range killers {
		t.Run(name, func(t *testing.T) {
			deaths := 0
			for n := 1; ; n++ {
				w := newWorld(t)
				arrange(w)
				w.boot().mustSettle()
				action(w)
				a := w.boot()
				arm(w, a, n)
				_ = a.settle()
				died := a.Dead()
				w.node.Revive()
				if t.Failed() {
					return
				}
				if w.fenceHolds(); t.Failed() {
					t.Fatalf("after the kill at effect %d", n)
				}
				w.boot().mustSettle()
				if check(t, w); t.Failed() {
					t.Fatalf("after the kill at effect %d", n)
				}
				if !died {
					break
				}
				deaths++
			}
			if deaths == 0 {
				t.Error("the agent never died: the test proves nothing")
			}
			t.Logf("%d kills", deaths)
		})
	}
}

// fenceHolds: a host whose attachment is gone is not admitted (design.md §6).
func (w *world) fenceHolds() {
	w.t.Helper()
	p := w.node.Partition("pvc-1", sliceSize)
	at := w.node.Attachment(p, consumer)
	if !w.reload(at) && w.admits(w.node.Attachment(p, consumer), p) {
		w.t.Error("the attachment is gone and its host is still admitted")
	}
}

func volumeOf(w *world) *v1alpha1.NVMePartition { return w.node.Partition("pvc-1", sliceSize) }

func createVolume(w *world) { w.create(volumeOf(w)) }

func attach(w *world) { w.create(w.node.Attachment(volumeOf(w), consumer)) }

func nothing(*world) {}

func TestProvisioningSurvivesAKillAtEveryEffect(t *testing.T) {
	crash(t, nothing, createVolume, func(t *testing.T, w *world) {
		p := volumeOf(w)
		w.reload(p)
		if p.Status.State != v1alpha1.PartitionExported {
			t.Errorf("state = %s", p.Status.State)
		}
		wantOneOfEach(t, w, p)
		if s, ok := w.state(p); !ok || s.Namespaces[0].UUID.String() != identity.NamespaceUUID(string(p.UID)) {
			t.Errorf("export = %+v", s)
		}
	})
}

func wantOneOfEach(t *testing.T, w *world, p *v1alpha1.NVMePartition) {
	t.Helper()
	if diff := cmp.Diff([]string{identity.PartitionUUID(string(p.UID))}, w.node.Slices()); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{volumetest.NQN(p)}, w.node.Exports(t)); diff != "" {
		t.Errorf("exports (-want +got):\n%s", diff)
	}
}

func TestAttachSurvivesAKillAtEveryEffect(t *testing.T) {
	crash(t, createVolume, attach, func(t *testing.T, w *world) {
		p := volumeOf(w)
		at := w.node.Attachment(p, consumer)
		w.reload(at)
		if got := condition(at.Status.Conditions, v1alpha1.ConditionAccessReady); got != "True/Granted" {
			t.Errorf("AccessReady = %s", got)
		}
		s, _ := w.state(p)
		if diff := cmp.Diff([]string{at.Spec.HostNQN}, s.AllowedHosts); diff != "" {
			t.Errorf("hosts (-want +got):\n%s", diff)
		}
		wantOneOfEach(t, w, p)
	})
}

func TestDetachSurvivesAKillAtEveryEffect(t *testing.T) {
	arrange := func(w *world) { createVolume(w); attach(w) }
	detach := func(w *world) {
		at := w.node.Attachment(volumeOf(w), consumer)
		setStatus(w, at, func(at *v1alpha1.NVMeVolumeAttachment) { at.Status.Filesystem = volumetest.Formatted(volumeOf(w)) })
		w.delete(at)
	}
	crash(t, arrange, detach, func(t *testing.T, w *world) {
		p := volumeOf(w)
		if at := w.node.Attachment(p, consumer); w.reload(at) {
			t.Errorf("the attachment is still there: %s", message(at.Status.Conditions, v1alpha1.ConditionAccessReady))
		}
		s, _ := w.state(p)
		if len(s.AllowedHosts) != 0 || !s.Namespaces[0].Enabled {
			t.Errorf("subsystem = %+v, want nobody admitted and the namespace enabled", s)
		}
		w.reload(p)
		if diff := cmp.Diff(volumetest.Formatted(p), p.Status.Filesystem); diff != "" {
			t.Errorf("format record (-want +got):\n%s", diff)
		}
	})
}

func TestDeletionSurvivesAKillAtEveryEffect(t *testing.T) {
	var before []string
	crash(t, func(w *world) { before = w.node.Dump(); createVolume(w) },
		func(w *world) { w.delete(volumeOf(w)) },
		func(t *testing.T, w *world) { wantNothingLeft(t, w, volumeOf(w), before) })
}

// Fault CV8 and the crash between carving and recording: a volume that is deleted
// while it is being made leaves nothing, whatever had been made of it.
func TestDeletionOfAHalfMadeVolumeLeavesNothing(t *testing.T) {
	for name, arm := range killers {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				w := newWorld(t)
				before := w.node.Dump()
				createVolume(w)
				a := w.boot()
				arm(w, a, n)
				_ = a.settle()
				died := a.Dead()
				w.node.Revive()
				w.delete(volumeOf(w))
				w.boot().mustSettle()
				if wantNothingLeft(t, w, volumeOf(w), before); t.Failed() {
					t.Fatalf("after the kill at effect %d", n)
				}
				if !died {
					return
				}
			}
		})
	}
}

// The two reconcilers share one export: whatever runs first after a restart, the
// outcome is the same.
func TestRestartRebuildsInAnyOrder(t *testing.T) {
	for _, attachmentFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("attachment first %v", attachmentFirst), func(t *testing.T) {
			w := newWorld(t)
			createVolume(w)
			attach(w)
			w.boot().mustSettle()
			p := volumeOf(w)
			want, _ := w.state(p)
			w.node.Reboot()
			a := w.boot()
			if attachmentFirst {
				if _, err := a.reconcileAttachment(w.node.Attachment(p, consumer)); err != nil {
					t.Fatal(err)
				}
			}
			a.mustSettle()
			if got, _ := w.state(p); !cmp.Equal(want, got) {
				t.Errorf("export (-before +after):\n%s", cmp.Diff(want, got))
			}
		})
	}
}
