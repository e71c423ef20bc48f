package report

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// carved is a partition on drive B whose slice is recorded.
func carved(name string) *v1alpha1.NVMePartition {
	p := &v1alpha1.NVMePartition{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID("uid-" + name)}}
	p.Spec.NodeName, p.Spec.ParentDeviceSerialNumber = node, "B"
	p.Status.Backend = &v1alpha1.BackendIdentity{PartitionUUID: identity.PartitionUUID(string(p.UID))}
	return p
}

func slice(p *v1alpha1.NVMePartition) carve.Volume {
	return carve.Volume{UUID: identity.PartitionUUID(string(p.UID)), Name: identity.ExternalID(string(p.UID))}
}

func TestTableIsComparedWithTheObjectsBothWays(t *testing.T) {
	a, b := carved("a"), carved("b")
	unrecorded := carved("c")
	unrecorded.Status.Backend = nil
	stranger := carve.Volume{UUID: "aaaaaaaa-0000-4000-8000-000000000001", Name: "vol-x"}
	for name, c := range map[string]struct {
		table    carve.Survey
		status   metav1.ConditionStatus
		reason   string
		mentions []string
	}{
		"they agree":              {carve.Survey{Volumes: []carve.Volume{slice(a), slice(b)}}, metav1.ConditionTrue, v1alpha1.ReasonAuditClean, nil},
		"one is about to be made": {carve.Survey{Volumes: []carve.Volume{slice(a), slice(b), slice(unrecorded)}}, metav1.ConditionTrue, v1alpha1.ReasonAuditClean, nil},
		"a volume of nobody": {carve.Survey{Volumes: []carve.Volume{slice(a), slice(b), stranger}}, metav1.ConditionFalse, v1alpha1.ReasonStrangersFound,
			[]string{stranger.UUID, "vol-x", "left alone"}},
		"an entry of somebody else": {carve.Survey{Volumes: []carve.Volume{slice(a), slice(b)}, Others: []string{"number 9, UUID x"}}, metav1.ConditionFalse, v1alpha1.ReasonStrangersFound,
			[]string{"number 9, UUID x"}},
		"one is lost": {carve.Survey{Volumes: []carve.Volume{slice(b)}}, metav1.ConditionFalse, v1alpha1.ReasonPartsMissing, []string{"n/a", slice(a).UUID}},
		"one is lost and one is too much": {carve.Survey{Volumes: []carve.Volume{slice(b), stranger}}, metav1.ConditionFalse, v1alpha1.ReasonPartsMissing,
			[]string{"n/a", stranger.UUID}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, a.DeepCopy(), b.DeepCopy(), unrecorded.DeepCopy())
			w.tables["B"] = c.table
			w.look(t)
			for _, text := range append(c.mentions, "") {
				want(t, w.device(t, "B").Status.Conditions, v1alpha1.ConditionAudited, c.status, c.reason, text)
			}
			if got := w.look(t); len(got) != 0 {
				t.Errorf("the second look writes %v", got)
			}
		})
	}
}

// A node with many drives does not read all its partitions for each of them.
func TestALookReadsAPartitionWithItsOwnDriveAndOnceMore(t *testing.T) {
	var objects []client.Object
	for i := range 30 {
		objects = append(objects, carved(fmt.Sprintf("p-%d", i)))
	}
	w := newWorld(t, objects...)
	for i := range 10 {
		serial := fmt.Sprintf("C%d", i)
		w.scan.Drives = append(w.scan.Drives, drive(serial, uint32(3+i)))
		w.found[serial] = media.Finding{Verdict: media.Distort}
	}
	w.look(t)
	if len(w.surveyed) != 12 || w.read > 3*len(objects) {
		t.Errorf("%d partitions were read for %d tables, want at most %d: before and after the table of their drive, and for the node", w.read, len(w.surveyed), 3*len(objects))
	}
}

func TestAuditMessageIsBounded(t *testing.T) {
	var strangers []string
	for i := range 1000 {
		strangers = append(strangers, fmt.Sprintf("stranger-%04d", i))
	}
	w := newWorld(t)
	w.audited = strangers
	w.look(t)
	want(t, w.node(t).Status.Conditions, v1alpha1.ConditionTargetAudited, metav1.ConditionFalse, v1alpha1.ReasonStrangersFound, "stranger-0000; ")
	want(t, w.node(t).Status.Conditions, v1alpha1.ConditionTargetAudited, metav1.ConditionFalse, v1alpha1.ReasonStrangersFound, "and 995 more")
}

func TestTargetIsAuditedOnceItWasLookedAt(t *testing.T) {
	broken := carved("broken")
	broken.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionExported, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonExportFailed}}
	w := newWorld(t, broken)
	w.look(t)
	for _, c := range w.node(t).Status.Conditions {
		if c.Type == v1alpha1.ConditionTargetAudited {
			t.Errorf("%+v before anybody looked", c)
		}
	}
	w.audited = []string{}
	w.look(t)
	want(t, w.node(t).Status.Conditions, v1alpha1.ConditionTargetAudited, metav1.ConditionFalse, v1alpha1.ReasonPartsMissing, "export of n/broken")
}

// What could not be looked at is said, so that a clean audit is not taken for more
// than it is.
func TestTargetAuditSaysWhatItCannotSee(t *testing.T) {
	const blind = "live controllers are not observable on this kernel"
	w := newWorld(t)
	w.audited, w.unseen = []string{}, blind
	w.look(t)
	want(t, w.node(t).Status.Conditions, v1alpha1.ConditionTargetAudited, metav1.ConditionTrue, v1alpha1.ReasonAuditClean, blind)
	w.audited = []string{"a stranger"}
	w.look(t)
	want(t, w.node(t).Status.Conditions, v1alpha1.ConditionTargetAudited, metav1.ConditionFalse, v1alpha1.ReasonStrangersFound, "a stranger; "+blind)
	if got := w.look(t); len(got) != 0 {
		t.Errorf("another look writes %v", got)
	}
}

// As long as its first table were not seen, all of the drive would be called free and
// all of its partitions missing.
func TestABlankDriveIsProbedAgainOnceItHasATable(t *testing.T) {
	w := newWorld(t)
	probes := func() int {
		return len(slices.DeleteFunc(slices.Clone(w.probed), func(s string) bool { return s != "A" }))
	}
	for _, c := range []struct {
		changes uint64
		want    int
	}{{0, 1}, {0, 1}, {1, 2}, {1, 2}} {
		w.changes = c.changes
		w.look(t)
		if got := probes(); got != c.want {
			t.Errorf("after %d changes probed %d times, want %d", c.changes, got, c.want)
		}
	}
}

// Writes for the table are those of the report, and it is read only when it may
// have changed.
func TestTableIsReadWhenItChangedOrTheMediumWasProbed(t *testing.T) {
	w := newWorld(t)
	w.tables["B"] = carve.Survey{LargestFree: 100}
	w.look(t)
	if got := w.device(t, "B").Status.LargestFreeExtent; got != 100 {
		t.Errorf("largest free extent = %d", got)
	}
	if got := w.device(t, "A").Status.LargestFreeExtent; got != 1<<30 {
		t.Errorf("largest free extent of a blank drive = %d", got)
	}
	count := func() int {
		return len(slices.DeleteFunc(slices.Clone(w.surveyed), func(s string) bool { return s != "B" }))
	}
	for range 4 {
		w.clock = w.clock.Add(45 * time.Second)
		w.look(t)
	}
	if count() != 1 {
		t.Errorf("the table of an idle drive was read %d times in three minutes", count())
	}
	w.tables["B"] = carve.Survey{LargestFree: 60}
	w.changes = 8 // eight volumes were made since
	if diff := cmp.Diff([]string{"patch status " + identity.DeviceName(node, "B")}, w.look(t)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got := w.device(t, "B").Status.LargestFreeExtent; got != 60 || count() != 2 {
		t.Errorf("largest free extent = %d after %d readings", got, count())
	}
	w.surveyErr, w.changes = errors.New("no answer"), 9
	if got := w.look(t); len(got) != 0 {
		t.Errorf("a table that cannot be read was answered with %v", got)
	}
	if got := w.device(t, "B").Status.LargestFreeExtent; got != 60 {
		t.Errorf("largest free extent = %d, want what was seen last", got)
	}
}

func timeout(serial string) media.Finding {
	err := fmt.Errorf("run blkid on %s: %w", serial, context.DeadlineExceeded)
	return media.Finding{Verdict: media.Unreadable, Err: err, Message: "the drive cannot be probed: " + err.Error()}
}

// Unknown is not No: under load a probe may not come to its end.
func TestProbeThatTimesOutKeepsTheVerdict(t *testing.T) {
	w := newWorld(t)
	w.look(t)
	good := w.found["B"]
	w.found["A"], w.found["B"] = timeout("A"), timeout("B")
	writes := 0
	for range 16 {
		w.clock = w.clock.Add(6 * time.Minute)
		w.look(t)
		for _, write := range w.writes {
			if strings.HasSuffix(write, identity.DeviceName(node, "B")) {
				writes++
			}
		}
		want(t, w.device(t, "A").Status.Conditions, v1alpha1.ConditionMediaUsable, metav1.ConditionTrue, v1alpha1.ReasonBlank, "blank")
		want(t, w.device(t, "B").Status.Conditions, v1alpha1.ConditionMediaUsable, metav1.ConditionTrue, v1alpha1.ReasonOwnLabel, "ours")
	}
	want(t, w.device(t, "B").Status.Conditions, v1alpha1.ConditionMediaUsable, metav1.ConditionTrue, v1alpha1.ReasonOwnLabel, "at least 16 probes in a row timed out")
	if writes != 4 { // 2, 4, 8, 16
		t.Errorf("%d writes for 16 probes that timed out, want 4", writes)
	}

	t.Run("and the next agent takes it over", func(t *testing.T) {
		again, err := New(w.Config)
		if err != nil {
			t.Fatal(err)
		}
		w.Reporter = again
		w.look(t)
		want(t, w.device(t, "B").Status.Conditions, v1alpha1.ConditionMediaUsable, metav1.ConditionTrue, v1alpha1.ReasonOwnLabel, "ours")
	})
	t.Run("a probe that answers ends it", func(t *testing.T) {
		w.found["B"] = good
		w.clock = w.clock.Add(6 * time.Minute)
		w.look(t)
		for _, c := range w.device(t, "B").Status.Conditions {
			if c.Type == v1alpha1.ConditionMediaUsable && c.Message != good.Message {
				t.Errorf("message = %q", c.Message)
			}
		}
	})
	t.Run("an error is an answer", func(t *testing.T) {
		err := errors.New("input/output error")
		w.found["B"] = media.Finding{Verdict: media.Unreadable, Err: err, Message: err.Error()}
		w.clock = w.clock.Add(6 * time.Minute)
		w.look(t)
		want(t, w.device(t, "B").Status.Conditions, v1alpha1.ConditionMediaUsable, metav1.ConditionFalse, v1alpha1.ReasonProbeFailed, "input/output error")
	})
	t.Run("and a bad verdict is not kept", func(t *testing.T) {
		w.found["B"] = timeout("B")
		w.clock = w.clock.Add(6 * time.Minute)
		w.look(t)
		want(t, w.device(t, "B").Status.Conditions, v1alpha1.ConditionMediaUsable, metav1.ConditionFalse, v1alpha1.ReasonProbeFailed, "deadline")
	})
	t.Run("nor that of another drive with the serial number", func(t *testing.T) {
		w.scan.Drives[0].Dev.Minor = 77
		w.found["A"] = timeout("A")
		w.look(t)
		want(t, w.device(t, "A").Status.Conditions, v1alpha1.ConditionMediaUsable, metav1.ConditionFalse, v1alpha1.ReasonProbeFailed, "deadline")
	})
}
