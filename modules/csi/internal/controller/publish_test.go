package controller_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	readers, writers := mountCapability(), mountCapability()
	readers.AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	writers.AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	for name, c := range map[string]struct {
		capability *csi.VolumeCapability
		says       string
	}{
		"block":                {sharedBlockCapability(), "the volume was made for"},
		"xfs":                  {xfs, "the volume was made for"},
		"readers":              {readers, "the volume was made for ReadWriteOnce"},
		"writers of one mount": {writers, "a filesystem has one writer"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.publish(h.within(enough), id, nodeA, c.capability)
			wantError(t, err, codes.InvalidArgument, c.says)
			r, err := h.ValidateVolumeCapabilities(h.within(enough), &csi.ValidateVolumeCapabilitiesRequest{
				VolumeId: id, VolumeCapabilities: []*csi.VolumeCapability{c.capability},
			})
			h.must(err)
			if r.GetConfirmed() != nil || !strings.Contains(r.GetMessage(), c.says) {
				t.Errorf("validated as %v", r)
			}
		})
	}
	h.wantRequests()
}

// TestANodeTakesNoMoreVolumesThanItSaidPL5: what goes makes room, and what is
// there may be asked for again.
func TestANodeTakesNoMoreVolumesThanItSaidPL5(t *testing.T) {
	const node, most = "worker-small", 2
	server.Consumer(t, node, most)
	h := newHarness(t, controlplanetest.Behaviour{})
	var ids []string
	for _, name := range []string{"pvc-1", "pvc-2", "pvc-3"} {
		ids = append(ids, h.created(name))
	}
	h.published(ids[0], node, mountCapability())
	h.published(ids[1], node, mountCapability())
	_, err := h.publish(h.within(enough), ids[2], node, mountCapability())
	wantError(t, err, codes.ResourceExhausted, node, "2 volumes of at most 2")
	h.wantRequests()
	h.published(ids[1], node, mountCapability())
	h.published(ids[2], nodeA, mountCapability())
	h.must(h.unpublish(h.within(enough), ids[0], node))
	h.must(h.unpublish(h.within(enough), ids[2], nodeA))
	h.published(ids[2], node, mountCapability())
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

// permit sets the annotation that permits a takeover.
func (h *harness) permit(node string) {
	h.t.Helper()
	var list v1alpha1.NVMeVolumeAttachmentList
	h.must(server.Client().List(h.t.Context(), &list, client.InNamespace(h.namespace)))
	for i := range list.Items {
		before := list.Items[i].DeepCopy()
		list.Items[i].Annotations = map[string]string{v1alpha1.ForceDetachAnnotation: node}
		h.must(server.Client().Patch(h.t.Context(), &list.Items[i], client.MergeFrom(before)))
	}
	h.attachmentShows(func(a *v1alpha1.NVMeVolumeAttachment) bool {
		return a.Annotations[v1alpha1.ForceDetachAnnotation] == node
	})
}

func TestTakeoverNeedsThePermissionAndTheSameProof(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{HoldRevoke: "device does not answer"})
	id := h.created("pvc-1")
	h.published(id, nodeA, mountCapability())
	h.permit("worker-z")
	_, err := h.publish(h.within(enough), id, nodeB, mountCapability())
	wantError(t, err, codes.FailedPrecondition, "published to node "+nodeA, "worker-z")

	h.permit(nodeA)
	for _, code := range []codes.Code{codes.DeadlineExceeded, codes.FailedPrecondition} { // the first call asks, the second finds it asked
		_, err = h.publish(h.within(brief), id, nodeB, mountCapability())
		wantError(t, err, code, nodeA, "device does not answer")
	}
	if diff := cmp.Diff([]string{nodeA}, h.attached()); diff != "" {
		t.Errorf("released without proof:\n%s", diff)
	}
	h.stub.Become(controlplanetest.Behaviour{})
	h.attachmentShows(nil)
	h.published(id, nodeB, mountCapability())

	// Kubernetes' own detach of the old node comes late and changes nothing.
	h.must(h.unpublish(h.within(enough), id, nodeA))
	if diff := cmp.Diff([]string{nodeB}, h.attached()); diff != "" {
		t.Error(diff)
	}
}
