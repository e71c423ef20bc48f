package controller_test

import (
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/controller"
	"github.com/distort-io/distort/modules/csi/internal/controlplanetest"
	"github.com/distort-io/distort/modules/csi/internal/publishcontext"
)

func TestPublishIsOnePOSTAndTellsTheNodeWhatToFind(t *testing.T) {
	const attachmentID = "22222222-2222-4222-8222-222222222222"
	h := newHarness(t, controlplanetest.Behaviour{}, func(o *controller.Options) {
		o.NewAttachmentID = func() string { return attachmentID }
	})
	id := h.created("pvc-1")
	m, err := h.publish(h.within(enough), id, nodeA, mountCapability())
	h.must(err)
	h.wantRequests("POST nvmevolumeattachments")

	c, err := publishcontext.Decode(m)
	h.must(err)
	p := h.partitions()[0]
	uid := string(p.UID)
	if c.Namespace.NQN != identity.VolumeNQN(identity.ExternalID(uid)) || c.Namespace.UUID != identity.NamespaceUUID(uid) ||
		c.Namespace.NSID != identity.NSID || c.HostNQN != identity.HostNQN(nodeA) || c.AttachmentID != attachmentID ||
		c.FilesystemUUID != identity.FilesystemUUID(uid) || c.Attachment.Name != identity.AttachmentName(uid) {
		t.Errorf("context %+v", c)
	}
	if len(c.Portals) != 1 || c.Portals[0].String() != "tcp://10.0.0.1:4420" {
		t.Errorf("portals %v", c.Portals)
	}
}

func TestPublishAgainIsTheSameAndWritesNothing(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	first, err := h.publish(h.within(enough), id, nodeA, mountCapability())
	h.must(err)
	h.requests.Take()
	second, err := h.publish(h.within(enough), id, nodeA, mountCapability())
	h.must(err)
	if diff := cmp.Diff(first, second); diff != "" {
		t.Error(diff)
	}
	h.wantRequests()
}

func TestPublishToASecondNodeNamesTheHolder(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	h.published(id, nodeA, mountCapability())
	_, err := h.publish(h.within(enough), id, nodeB, mountCapability())
	wantError(t, err, codes.FailedPrecondition, "published to node "+nodeA)
	h.wantRequests()
}

func TestPublishToASecondNodeWaitsForNoFence(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{HoldRevoke: "host still listed"})
	id := h.created("pvc-1")
	h.published(id, nodeA, mountCapability())
	wantError(t, h.unpublish(h.within(brief), id, nodeA), codes.DeadlineExceeded)
	_, err := h.publish(h.within(enough), id, nodeB, mountCapability())
	wantError(t, err, codes.FailedPrecondition, nodeA, "host still listed")
}

func TestPublishToTheSameNodeWaitsUntilItsEarlierAccessIsRevoked(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{HoldRevoke: "host still listed"})
	id := h.created("pvc-1")
	first, err := h.publish(h.within(enough), id, nodeA, mountCapability())
	h.must(err)
	wantError(t, h.unpublish(h.within(brief), id, nodeA), codes.DeadlineExceeded)
	_, err = h.publish(h.within(brief), id, nodeA, mountCapability())
	wantError(t, err, codes.DeadlineExceeded, "host still listed")

	answered := make(chan map[string]string, 1)
	go func() {
		m, err := h.publish(h.within(enough), id, nodeA, mountCapability())
		if err != nil {
			t.Error(err)
		}
		answered <- m
	}()
	h.stub.Become(controlplanetest.Behaviour{})
	second := <-answered
	if first["attachment-uid"] == second["attachment-uid"] || first["attachment-id"] == second["attachment-id"] {
		t.Errorf("still the earlier attachment: %v, %v", first, second)
	}
}

func TestPublishOfWhatDoesNotExistIsNotFound(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	for name, c := range map[string]struct{ volume, node string }{
		"another life of the name (SE8)": {h.handleWith(id, otherLife), nodeA},
		"not a handle":                   {"some-volume", nodeA},
		"a node without the driver":      {id, "worker-z"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.publish(h.within(enough), c.volume, c.node, mountCapability())
			wantError(t, err, codes.NotFound)
		})
	}
	if got := h.attached(); len(got) != 0 {
		t.Errorf("attached: %v", got)
	}
}

func TestPublishRefusesAUseThatTheVolumeWasNotMadeFor(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	xfs := mountCapability()
	xfs.GetMount().FsType = "xfs"
	for name, c := range map[string]*csi.VolumeCapability{"block": sharedBlockCapability(), "xfs": xfs} {
		t.Run(name, func(t *testing.T) {
			_, err := h.publish(h.within(enough), id, nodeA, c)
			wantError(t, err, codes.InvalidArgument, "the volume was made for")
		})
	}
	h.wantRequests()
}

func TestPublishOutOfTimeLeavesAnAttachmentThatTheRetryFinds(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{HoldGrant: true})
	id := h.created("pvc-1")
	_, err := h.publish(h.within(brief), id, nodeA, mountCapability())
	wantError(t, err, codes.DeadlineExceeded, controlplanetest.StorageNode)
	h.requests.Take()
	h.stub.Become(controlplanetest.Behaviour{})
	_, err = h.publish(h.within(enough), id, nodeA, mountCapability())
	h.must(err)
	h.wantRequests()
}

func TestPublishSaysWhyAccessIsNotReady(t *testing.T) {
	for reason, code := range map[string]codes.Code{
		v1alpha1.ReasonVolumeNotExported: codes.DeadlineExceeded,
		v1alpha1.ReasonVolumeMismatch:    codes.FailedPrecondition,
	} {
		t.Run(reason, func(t *testing.T) {
			h := newHarness(t, controlplanetest.Behaviour{GrantReason: reason})
			id := h.created("pvc-1")
			_, err := h.publish(h.within(brief), id, nodeA, mountCapability())
			wantError(t, err, code, reason, "refused by the test")
		})
	}
}

func TestPublishOfADeletingVolumeIsRefused(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{HoldDelete: true})
	id := h.created("pvc-1")
	wantError(t, h.delete(h.within(brief), id), codes.DeadlineExceeded)
	_, err := h.publish(h.within(enough), id, nodeA, mountCapability())
	wantError(t, err, codes.FailedPrecondition, "being deleted")
}

func TestOnlyAMultiWriterBlockVolumeHasTwoNodes(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1", sharedBlock)
	h.published(id, nodeA, sharedBlockCapability())
	h.published(id, nodeB, sharedBlockCapability())
	got := h.attached()
	slices.Sort(got)
	if diff := cmp.Diff([]string{nodeA, nodeB}, got); diff != "" {
		t.Error(diff)
	}
	h.must(h.unpublish(h.within(enough), id, nodeA))
	h.wantRequests("DELETE nvmevolumeattachments/NAME")
	if diff := cmp.Diff([]string{nodeB}, h.attached()); diff != "" {
		t.Error(diff)
	}
}
