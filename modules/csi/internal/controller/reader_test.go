package controller_test

import (
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/controlplanetest"
)

func readers() *csi.VolumeCapability {
	c := mountCapability()
	c.AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	return c
}

// forReaders asks for a volume that many nodes read.
func forReaders(r *csi.CreateVolumeRequest) {
	r.VolumeCapabilities = []*csi.VolumeCapability{readers()}
}

// replayed records that the Volume's first reader, by this attachment, has replayed
// the journal, and waits until distort-agent has copied that to the Volume.
func (h *harness) replayed(volume, attachment string) {
	h.t.Helper()
	var a v1alpha1.NVMeVolumeAttachment
	h.must(server.Client().Get(h.within(enough), client.ObjectKey{Namespace: h.namespace, Name: attachment}, &a))
	before, at := a.DeepCopy(), metav1.Now()
	a.Status.Filesystem = &v1alpha1.FilesystemStatus{Type: v1alpha1.Ext4, UUID: otherUID, FormattedAt: &at, RecoveredAt: &at}
	h.must(server.Client().Status().Patch(h.within(enough), &a, client.MergeFrom(before)))
	shows(h, client.ObjectKey{Name: volume}, func(v *v1alpha1.Volume) bool { return v.Status.Filesystem.Recovered() })
}

// attachmentNames lists those in the API server.
func (h *harness) attachmentNames() []string {
	h.t.Helper()
	var list v1alpha1.NVMeVolumeAttachmentList
	h.must(server.Client().List(h.within(enough), &list, client.InNamespace(h.namespace)))
	var names []string
	for _, a := range list.Items {
		names = append(names, a.Name)
	}
	return names
}

// A copy that many nodes read is given to one node alone until that has replayed its
// journal, and to all after that.
func TestManyNodesReadACopyOnceItsJournalIsReplayed(t *testing.T) {
	h := newPoolHarness(t, controlplanetest.Behaviour{})
	source := h.created("pvc-1", pool)
	_, err := h.CreateVolume(h.within(enough), createRequest("pvc-2", pool, forReaders, fromVolume(source)))
	wantError(t, err, codes.FailedPrecondition, "no filesystem yet")
	h.formatted("pvc-1", v1alpha1.Ext4)
	id := h.created("pvc-2", pool, forReaders, fromVolume(source))
	var v v1alpha1.Volume
	h.must(server.Client().Get(h.within(enough), client.ObjectKey{Name: "pvc-2"}, &v))
	alone := identity.AttachmentName(string(v.UID))
	shared := func(node string) string { return identity.SharedAttachmentName(string(v.UID), node) }
	wantAttachments := func(want ...string) {
		t.Helper()
		slices.Sort(want)
		if got := h.attachmentNames(); !slices.Equal(got, want) {
			t.Errorf("attachments %v, want %v", got, want)
		}
	}

	h.published(id, nodeA, readers())
	wantAttachments(alone)
	_, err = h.publish(h.within(enough), id, nodeB, readers())
	wantError(t, err, codes.FailedPrecondition, "replays its journal, alone", nodeA)
	wantAttachments(alone)

	h.replayed("pvc-2", alone)
	h.published(id, nodeB, readers())
	h.published(id, nodeA, readers())
	wantAttachments(alone, shared(nodeB))

	h.must(h.unpublish(h.within(enough), id, nodeA))
	wantAttachments(shared(nodeB))
	h.published(id, nodeA, readers())
	wantAttachments(shared(nodeA), shared(nodeB))

	_, err = h.publish(h.within(enough), id, nodeA, mountCapability())
	wantError(t, err, codes.InvalidArgument, "the volume was made for ReadOnlyMany")
	_, err = h.expand(h.within(enough), id, large, 0, nil)
	wantError(t, err, codes.InvalidArgument, "none could grow the filesystem")
}
