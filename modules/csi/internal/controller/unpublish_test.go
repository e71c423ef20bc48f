package controller_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/api/handle"
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
