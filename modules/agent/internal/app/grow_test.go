package app_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/distort-io/distort/modules/agent/internal/carve/carvetest"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Fault EX1: a growth is done when the hosts can see it, and they stay connected.
func growthReachesConnectedHostsAndWritesOnce(t *testing.T, on site) {
	w := on.open(t)
	a, p := w.exported()
	if got := condition(p.Status.Conditions, v1alpha1.ConditionResized); got != "absent" {
		t.Errorf("Resized = %s before anybody asked", got)
	}
	w.create(w.node.Attachment(p, consumer))
	a.mustSettle()
	host, err := w.node.Connect(consumer, p)
	if err != nil {
		t.Fatal(err)
	}
	grow(w, 3*sliceSize)
	if diff := cmp.Diff(map[string]int{"NVMePartition/status": 1}, a.written(a.mustSettle)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	for _, problem := range grown(3 * sliceSize)(w) {
		t.Error(problem)
	}
	if size, err := host.Size(identity.NSID); err != nil || size != 3*sliceSize {
		t.Errorf("the host sees %d bytes (%v)", size, err)
	}
	if err := host.Write(identity.NSID, "still here"); err != nil {
		t.Errorf("the host was cut off: %v", err)
	}
	w.reload(p)
	if c := p.Status.Conditions; condition(c, v1alpha1.ConditionExported) != "True/Exported" || p.Status.State != v1alpha1.PartitionExported {
		t.Errorf("state %s, Exported = %s", p.Status.State, condition(c, v1alpha1.ConditionExported))
	}
	if got := a.written(a.mustSettle); len(got) != 0 {
		t.Errorf("an idle agent wrote %v", got)
	}
	again := w.boot()
	if got := again.written(again.mustSettle); len(got) != 0 {
		t.Errorf("the next agent wrote %v", got)
	}
}

// A growth that cannot be leaves everything as it was, says why with numbers, and
// is withdrawn by setting the size back.
func TestGrowthWithoutSpaceIsRefusedAndWithdrawn(t *testing.T) {
	for name, c := range map[string]struct {
		// arrange is between the volume and the growth.
		arrange  func(*world)
		size     int64
		mentions []string
		// repair makes room, nil when nothing can.
		repair func(*world)
	}{
		"a sibling right behind": {
			arrange: func(w *world) { w.create(w.node.Partition("pvc-2", sliceSize)) },
			size:    2 * sliceSize, mentions: []string{"to 134217728 bytes", "0 bytes are free behind it"},
			repair: func(w *world) { w.delete(w.node.Partition("pvc-2", sliceSize)) },
		},
		"more than the drive": {arrange: nothing, size: 2 * driveSize, mentions: []string{"to 2147483648 bytes", "free behind it"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, a, p := exported(t)
			c.arrange(w)
			a.mustSettle()
			before := w.node.Dump()
			entries := w.node.Drive.Entries()
			grow(w, c.size)
			if err := a.settle(); !errors.Is(err, reconcile.TerminalError(nil)) {
				t.Errorf("error = %v, want a terminal one", err)
			}
			w.reload(p)
			if got := condition(p.Status.Conditions, v1alpha1.ConditionResized); got != "False/GrowthNoSpace" {
				t.Errorf("Resized = %s", got)
			}
			for _, text := range c.mentions {
				if m := message(p.Status.Conditions, v1alpha1.ConditionResized); !strings.Contains(m, text) {
					t.Errorf("message %q does not say %q", m, text)
				}
			}
			if p.Status.State != v1alpha1.PartitionExported || p.Status.AllocatedCapacity != sliceSize {
				t.Errorf("state %s with %d bytes: a growth that fails must cost nothing", p.Status.State, p.Status.AllocatedCapacity)
			}
			if !cmp.Equal(before, w.node.Dump()) || !cmp.Equal(entries, w.node.Drive.Entries()) {
				t.Error("the node was touched")
			}
			if got := a.written(func() { _ = a.settle() }); len(got) != 0 {
				t.Errorf("a refusal that lasts was written again: %v", got)
			}
			if c.repair != nil {
				c.repair(w)
				a.mustSettle()
				w.reload(p)
				if got := condition(p.Status.Conditions, v1alpha1.ConditionResized); got != "True/Resized" || p.Status.AllocatedCapacity != c.size {
					t.Errorf("after room was made: Resized = %s, %d bytes", got, p.Status.AllocatedCapacity)
				}
				return
			}
			grow(w, sliceSize)
			a.mustSettle()
			w.reload(p)
			if got := condition(p.Status.Conditions, v1alpha1.ConditionResized); got != "False/GrowthNoSpace" || !cmp.Equal(entries, w.node.Drive.Entries()) {
				t.Errorf("after the withdrawal Resized = %s", got)
			}
		})
	}
}

func TestGrowthYieldsToPartitionsThatArePlaced(t *testing.T) {
	w, a, p := exported(t)
	w.create(w.node.Partition("pvc-2", driveSize-3*sliceSize)) // placed, and the agent has not come to it
	grow(w, 4*sliceSize)
	if _, err := a.reconcilePartition(p); !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("error = %v, want a terminal one", err)
	}
	w.reload(p)
	if m := message(p.Status.Conditions, v1alpha1.ConditionResized); !strings.Contains(m, "placed on the drive come first") {
		t.Errorf("message = %q", m)
	}
	grow(w, sliceSize)
	a.mustSettle()
}

// What the kernel, a tool or the target refuses is tried again, and nothing is
// vouched for until the target serves what was carved.
func TestGrowthIsTriedAgainUntilTheTargetServesIt(t *testing.T) {
	w, a, p := exported(t)
	grow(w, 2*sliceSize)
	w.node.Kernel.FailAt(1, errors.New("input/output error"))
	if _, err := a.reconcilePartition(p); err == nil || errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("error = %v, want one that is tried again", err)
	}
	w.reload(p)
	if got := condition(p.Status.Conditions, v1alpha1.ConditionResized); got != "False/ResizeFailed" || p.Status.AllocatedCapacity != 2*sliceSize {
		t.Errorf("Resized = %s, allocated %d: the slice has grown, and the target does not serve it", got, p.Status.AllocatedCapacity)
	}
	next := w.boot() // an agent that knows nothing
	next.mustSettle()
	w.reload(p)
	if got := condition(p.Status.Conditions, v1alpha1.ConditionResized); got != "True/Resized" {
		t.Errorf("Resized = %s in the end", got)
	}
}

func TestGrowthOfADamagedDriveNeedsAPerson(t *testing.T) {
	w, a, p := exported(t)
	grow(w, 2*sliceSize)
	w.node.Drive.SetSignatures(carvetest.Signature{Type: "ext4", Offset: 0x438})
	if _, err := a.reconcilePartition(p); !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("error = %v, want a terminal one", err)
	}
	w.reload(p)
	if got := condition(p.Status.Conditions, v1alpha1.ConditionResized); got != "False/ResizeFailed" {
		t.Errorf("Resized = %s", got)
	}
	if p.Status.State != v1alpha1.PartitionExported {
		t.Errorf("state = %s, want the volume still served", p.Status.State)
	}
}
