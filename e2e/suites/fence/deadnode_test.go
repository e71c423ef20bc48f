package fence

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/prepare"
	"github.com/distort-io/distort/e2e/internal/suite"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// TestPodOfADeadNodeStartsElsewhereWithItsData takes a node's power away and puts
// it out of service, which detaches its volumes without a word to it. When it is
// back, it is refused what it had, and works.
func TestPodOfADeadNodeStartsElsewhereWithItsData(t *testing.T) {
	const name, file, mib = "fence-dead", flow.DataDir + "/file", 2
	l, f, guests, done := open(t)
	defer done()
	ctx := t.Context()
	older, newer := layout.Consumers()[0], layout.Consumers()[1]
	suite.Must(t, f.Evacuate(ctx, older))
	s := setUp(t, f, guests, volume{name: name, transport: "tcp", filesystem: true})
	pod, err := f.CreateSet(ctx, flow.Pod{Name: name, Image: prepare.WorkloadImage, Claim: name, Node: older})
	suite.Must(t, err)
	suite.Must(t, f.WaitRunning(ctx, pod, older, powerTimeout))
	written, err := f.WriteFile(ctx, pod, file, mib)
	suite.Must(t, err)
	held := s.held(ctx, older)

	suite.Must(t, l.PowerOff(ctx, older))
	suite.Must(t, f.WaitNode(ctx, older, false, powerTimeout))
	suite.Must(t, f.PutOutOfService(ctx, older))
	began := time.Now()
	suite.Must(t, f.WaitRunning(ctx, pod, newer, powerTimeout))
	t.Logf("the pod runs on %s %s after the taint", newer, time.Since(began).Round(time.Second))
	s.wantEvidence(ctx, held)
	check := func() {
		t.Helper()
		suite.Must(t, f.DropCaches(ctx, newer))
		got, err := f.Checksum(ctx, pod, file)
		suite.Must(t, err)
		if got != written {
			t.Errorf("checksum is %s, was %s", got, written)
		}
	}
	check()

	suite.Must(t, l.PowerOn(ctx, older))
	install(t, map[string]*guestexec.Client{older: guests[older]})
	suite.Must(t, f.WaitNode(ctx, older, true, powerTimeout))
	suite.Must(t, f.PutInService(ctx, older))
	s.waitRefused(ctx, older)
	check()

	again := setUp(t, f, guests, volume{name: name + "-again", transport: "tcp", filesystem: true})
	_, err = f.StartPod(ctx, flow.Pod{Name: again.name, Image: prepare.WorkloadImage, Claim: again.name, Node: older})
	suite.Must(t, err)
	_, err = f.WriteFile(ctx, again.name, file, mib)
	suite.Must(t, err)
	suite.Must(t, f.DeletePod(ctx, again.name))
	again.tearDown(ctx)
	suite.Must(t, f.DeleteSet(ctx, name))
	s.tearDown(ctx)
}

// TestForcedTakeoverOfADeadNode takes a volume over that Kubernetes has not
// detached, with an administrator's permission and not without.
func TestForcedTakeoverOfADeadNode(t *testing.T) {
	l, f, guests, done := open(t)
	defer done()
	ctx := t.Context()
	older, newer := layout.Consumers()[0], layout.Consumers()[1]
	suite.Must(t, f.Evacuate(ctx, older))
	s := setUp(t, f, guests, volume{name: "fence-force", transport: "tcp"})
	stop := s.writeFrom(ctx, older, "old")
	defer stop()
	held := s.held(ctx, older)

	suite.Must(t, l.PowerOff(ctx, older))
	stop()
	s.attachIsRefused(ctx, newer, "published to node "+older)
	permitted := held.DeepCopy()
	permitted.Annotations = map[string]string{v1alpha1.ForceDetachAnnotation: older}
	for key, value := range held.Annotations {
		permitted.Annotations[key] = value
	}
	suite.Must(t, f.Client().Patch(ctx, permitted, client.MergeFrom(held)))
	s.attach(ctx, newer)
	s.wantEvidence(ctx, held)
	beginning := s.records(ctx)
	if m := missing(beginning, "old"); m != "" {
		t.Error(m)
	}
	fresh, err := s.connect(ctx, newer)
	suite.Must(t, err)
	finish := s.own(ctx, newer, fresh, "new", beginning)

	suite.Must(t, l.PowerOn(ctx, older))
	install(t, map[string]*guestexec.Client{older: guests[older]})
	s.waitRefused(ctx, older)
	// Kubernetes detaches the old host at last, which changes nothing.
	s.detach(ctx, older)
	if a := s.held(ctx, newer); a.DeletionTimestamp != nil || !meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.ConditionAccessReady) {
		t.Errorf("a late detachment of %s touched %s: %s", older, newer, flow.Conditions(a.Status.Conditions))
	}
	wait(ctx, watched)
	if problem := finish(); problem != "" {
		t.Errorf("%s: %s", newer, problem)
	}
	s.disconnect(ctx, newer)
	s.detach(ctx, newer)
	s.tearDown(ctx)
	suite.Must(t, f.WaitNode(ctx, older, true, powerTimeout))
}
