package volume

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// attachmentsByVolume is the cache index of attachments by the UID of their
// volume.
const attachmentsByVolume = "spec.volumeRef.uid"

// IndexAttachments adds the index that Attachments needs.
func IndexAttachments(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &v1alpha1.NVMeVolumeAttachment{}, attachmentsByVolume, VolumeOfAttachment)
}

// VolumeOfAttachment is the index function of IndexAttachments.
func VolumeOfAttachment(o client.Object) []string {
	return []string{string(o.(*v1alpha1.NVMeVolumeAttachment).Spec.VolumeRef.UID)}
}

// Attachments returns all attachments of the volume that this node is the target
// of, live and deleting, by name.
func Attachments(ctx context.Context, cache client.Reader, volume types.UID) ([]v1alpha1.NVMeVolumeAttachment, error) {
	var list v1alpha1.NVMeVolumeAttachmentList
	if err := cache.List(ctx, &list, client.MatchingFields{attachmentsByVolume: string(volume)}); err != nil {
		return nil, fmt.Errorf("list attachments of volume %s: %w", volume, err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.NVMeVolumeAttachment) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})
	return list.Items, nil
}

// Refers tells whether the attachment is one of exactly this volume, in this life
// of it.
func Refers(a *v1alpha1.NVMeVolumeAttachment, s v1alpha1.Slice) bool {
	return a.Spec.VolumeRef == s.GetReference()
}

// Inadmissible says why the attachment can never admit its host to the volume,
// or "". The names are a rule of access and no mere convention: because a
// single-writer volume has one name for its attachment, a second host cannot be
// asked for while the first one is there (design.md §3), and an attachment with
// another name would go around that. A volume that many nodes read has one writer
// until its journal is replayed, and none after that.
func Inadmissible(s v1alpha1.Slice, a *v1alpha1.NVMeVolumeAttachment) string {
	alone, shared := identity.AttachmentName(string(s.GetUID())), identity.SharedAttachmentName(string(s.GetUID()), a.Spec.NodeID)
	mode, name, also := s.GetAccessMode(), alone, alone
	switch {
	case mode == v1alpha1.ReadWriteMany:
		name, also = shared, shared
	case mode == v1alpha1.ReadOnlyMany && s.GetFilesystemStatus().Recovered():
		name = shared
	}
	switch {
	case a.Name != name && a.Name != also:
		return fmt.Sprintf("the attachment is named %q; that of a %s volume to node %q must be named %q", a.Name, mode, a.Spec.NodeID, name)
	case s.GetNamespace() != "" && a.Namespace != s.GetNamespace():
		return fmt.Sprintf("the attachment is in namespace %q; it must be in the volume's, %q", a.Namespace, s.GetNamespace())
	case a.Spec.HostNQN != identity.HostNQN(a.Spec.NodeID):
		return fmt.Sprintf("hostNQN %q is not that of node %q, %q", a.Spec.HostNQN, a.Spec.NodeID, identity.HostNQN(a.Spec.NodeID))
	}
	return ""
}

// Admitted tells whether the attachment admits its host now. One without our
// finalizer does not: its host could not be fenced before it goes.
func Admitted(s v1alpha1.Slice, a *v1alpha1.NVMeVolumeAttachment) bool {
	return a.DeletionTimestamp.IsZero() && controllerutil.ContainsFinalizer(a, v1alpha1.AccessFinalizer) &&
		Refers(a, s) && Inadmissible(s, a) == ""
}

// Hosts are the NQNs of the hosts that the volume's live attachments admit,
// sorted.
func Hosts(s v1alpha1.Slice, attachments []v1alpha1.NVMeVolumeAttachment) []string {
	var out []string
	for i := range attachments {
		if Admitted(s, &attachments[i]) {
			out = append(out, attachments[i].Spec.HostNQN)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
