package controller_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/controller"
	"github.com/distort-io/distort/modules/csi/internal/controlplanetest"
)

func TestUnpublishIsOneDELETEAndLeavesNothing(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	h.published(id, nodeA, mountCapability())
	h.must(h.unpublish(h.within(enough), id, nodeA))
	h.wantRequests("DELETE nvmevolumeattachments/NAME")
	if got := h.attached(); len(got) != 0 {
		t.Errorf("attached: %v", got)
	}
}

func TestUnpublishAgainIsOK(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	h.published(id, nodeA, mountCapability())
	for range 3 {
		h.must(h.unpublish(h.within(enough), id, nodeA))
	}
}

func TestStaleUnpublishNeverRevokesTheCurrentOwnerPU7(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	h.published(id, nodeA, mountCapability())
	h.must(h.unpublish(h.within(enough), id, nodeB))
	// Neither does that of an earlier life of the volume (SE8).
	h.must(h.unpublish(h.within(enough), h.handleWith(id, otherLife), nodeA))
	if diff := cmp.Diff([]string{nodeA}, h.attached()); diff != "" {
		t.Error(diff)
	}
}

func TestUnpublishIsAnsweredWhenTheHostIsFencedAndNotBeforePU11(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{HoldRevoke: "controller 3 of the host is live"})
	id := h.created("pvc-1")
	h.published(id, nodeA, mountCapability())
	for range 2 {
		wantError(t, h.unpublish(h.within(brief), id, nodeA), codes.DeadlineExceeded,
			nodeA, "not proven to be revoked", "Revoking", "controller 3 of the host is live")
	}
	h.stub.Become(controlplanetest.Behaviour{})
	h.must(h.unpublish(h.within(enough), id, nodeA))
}

func TestUnpublishWithoutANodeIsAllNodes(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1", sharedBlock)
	h.published(id, nodeA, sharedBlockCapability())
	h.published(id, nodeB, sharedBlockCapability())
	h.must(h.unpublish(h.within(enough), id, ""))
	if got := h.attached(); len(got) != 0 {
		t.Errorf("attached: %v", got)
	}
	h.must(h.unpublish(h.within(enough), id, ""))
}

func TestUnpublishAnswersNothingAboutVolumesThatItDoesNotKnow(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	h.must(h.unpublish(h.within(enough), "some-volume", nodeA))
	for name, foreign := range map[string]string{
		"a kind of tomorrow (PU2)": "dataset::pvc-1:" + otherUID,
		"another namespace (SE8)":  h.handleWith(id, func(x *handle.Handle) { x.Namespace = "kube-system" }),
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, h.unpublish(h.within(enough), foreign, nodeA), codes.InvalidArgument)
		})
	}
}

// TestUnpublishBelievesTheAPIServerAndNotACacheThatIsBehind: OK is the promise
// that the host is fenced, also from a replica that has just started.
func TestUnpublishBelievesTheAPIServerAndNotACacheThatIsBehind(t *testing.T) {
	for name, node := range map[string]string{"one node": nodeA, "all nodes": ""} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, controlplanetest.Behaviour{HoldRevoke: "host still listed"}, func(o *controller.Options) { o.Client = blind{o.Client} })
			r, err := h.CreateVolume(h.within(2*brief), createRequest("pvc-1"))
			h.must(err)
			id := r.GetVolume().GetVolumeId()
			_, err = h.publish(h.within(2*brief), id, nodeA, mountCapability())
			h.must(err)
			wantError(t, h.unpublish(h.within(brief), id, node), codes.DeadlineExceeded, "not proven")
			h.stub.Become(controlplanetest.Behaviour{})
			h.must(h.unpublish(h.within(2*brief), id, node))
			if got := h.attached(); len(got) != 0 {
				t.Errorf("answered OK with attachments %v left", got)
			}
		})
	}
}

// A storage node that does not answer releases nothing, and the caller is told
// since when it is silent, before its deadline.
func TestUnpublishNamesTheStorageNodeThatDoesNotAnswer(t *testing.T) {
	node := &v1alpha1.RDMAStorageNode{
		ObjectMeta: metav1.ObjectMeta{Name: "storage-silent"},
		Spec:       v1alpha1.RDMAStorageNodeSpec{NodeName: "storage-silent"},
	}
	h := newHarness(t, controlplanetest.Behaviour{StorageNode: node.Name})
	h.must(server.Client().Create(h.within(enough), node))
	since := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	node.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHeartbeatExpired,
		Message: "no heartbeat", LastTransitionTime: since,
	}}
	h.must(server.Client().Status().Update(h.within(enough), node))
	id := h.created("pvc-1")
	h.published(id, nodeA, mountCapability())
	h.stub.Become(controlplanetest.Behaviour{StorageNode: node.Name, Revoked: func(v1alpha1.Slice, *v1alpha1.NVMeVolumeAttachment) error {
		return errors.New("the agent is not there")
	}})
	ctx := h.within(brief)
	wantError(t, h.unpublish(ctx, id, nodeA), codes.DeadlineExceeded,
		"not proven to be revoked", "has not said", "storage-silent is not ready since 2026-03-01T12:00:00Z", "no heartbeat")
	if ctx.Err() != nil {
		t.Error("answered after the deadline, when nobody listens")
	}
	if diff := cmp.Diff([]string{nodeA}, h.attached()); diff != "" {
		t.Errorf("released without proof:\n%s", diff)
	}

	// distort-manager says it in the condition, too.
	h.must(retry.RetryOnConflict(retry.DefaultRetry, func() error { // the stub writes too
		list := &v1alpha1.NVMeVolumeAttachmentList{}
		h.must(server.Client().List(h.within(enough), list))
		for i := range list.Items {
			a := &list.Items[i]
			meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{
				Type: v1alpha1.ConditionAccessReady, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonStorageNodeSilent, Message: "no proof of a drain",
			})
			if err := server.Client().Status().Update(h.within(enough), a); err != nil {
				return err
			}
		}
		return nil
	}))
	wantError(t, h.unpublish(h.within(brief), id, nodeA), codes.DeadlineExceeded, "AccessReady=Unknown", v1alpha1.ReasonStorageNodeSilent, "no proof of a drain")

	h.stub.Become(controlplanetest.Behaviour{StorageNode: node.Name})
	h.must(h.unpublish(h.within(enough), id, nodeA))
}

// Publish to B comes while unpublish of A is running, to this replica and to
// another one: B waits until A is proven to be fenced.
func TestPublishDuringTheUnpublishOfAnotherNode(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{HoldRevoke: "host still listed"})
	replica := h.replica()
	id := h.created("pvc-1")
	h.published(id, nodeA, mountCapability())
	unpublished := make(chan error, 1)
	go func() { unpublished <- h.unpublish(h.within(enough), id, nodeA) }()
	h.attachmentShows(func(a *v1alpha1.NVMeVolumeAttachment) bool {
		return meta.IsStatusConditionFalse(a.Status.Conditions, v1alpha1.ConditionAccessReady)
	})
	_, err := h.publish(h.within(enough), id, nodeB, mountCapability())
	wantError(t, err, codes.Aborted)
	_, err = replica.publish(h.within(enough), id, nodeB, mountCapability())
	wantError(t, err, codes.FailedPrecondition, nodeA, "still being revoked")
	h.stub.Become(controlplanetest.Behaviour{})
	h.must(<-unpublished)
	// The replica's cache may still show A; the attacher tries again.
	ctx := h.within(enough)
	_, err = replica.publish(ctx, id, nodeB, mountCapability())
	for err != nil && ctx.Err() == nil {
		wantError(t, err, codes.FailedPrecondition, nodeA)
		_, err = replica.publish(ctx, id, nodeB, mountCapability())
	}
	h.must(ctx.Err())
	if diff := cmp.Diff([]string{nodeB}, h.attached()); diff != "" {
		t.Error(diff)
	}
}

// An unpublish that was sent for an attachment that is gone since must not touch
// its successor: neither the node's own next one nor another node's.
func TestLateUnpublishOfAnEarlierAttachment(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	h.published(id, nodeA, mountCapability())
	h.must(h.unpublish(h.within(enough), id, nodeA))
	h.published(id, nodeB, mountCapability())
	h.must(h.unpublish(h.within(enough), id, nodeA))
	h.wantRequests("GET nvmevolumeattachments/NAME", "GET nvmevolumeattachments/NAME")
	if diff := cmp.Diff([]string{nodeB}, h.attached()); diff != "" {
		t.Error(diff)
	}
}

// Unpublish for all nodes of a volume must not touch that of its namesake in
// another life.
func TestUnpublishOfAllNodesKnowsARecreatedVolume(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	first := h.created("pvc-1")
	h.must(h.delete(h.within(enough), first))
	second := h.created("pvc-1")
	if first == second {
		t.Fatal("one handle for two lives")
	}
	h.published(second, nodeA, mountCapability())
	for _, node := range []string{"", nodeA} {
		h.must(h.unpublish(h.within(enough), first, node))
	}
	if diff := cmp.Diff([]string{nodeA}, h.attached()); diff != "" {
		t.Error(diff)
	}
}
