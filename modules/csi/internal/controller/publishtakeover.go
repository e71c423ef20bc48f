package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// takeOver asks for the deletion of another node's attachment if a person has
// permitted it by the annotation force-detach-node on exactly this attachment.
// Else it refuses and names the holder. The permission spares the waiting for
// Kubernetes to detach the holder, and nothing else: distort-agent lets the
// attachment go with the same evidence as ever (design.md §6).
//
// The node's out-of-service taint needs no such way: Kubernetes detaches the
// volumes of such a node itself, and unpublish is a fence.
func (s *Server) takeOver(ctx context.Context, held *v1alpha1.NVMeVolumeAttachment) error {
	holder := held.Spec.NodeID
	switch permitted := held.Annotations[v1alpha1.ForceDetachAnnotation]; permitted {
	case holder:
	case "":
		return refusef(errState, "the volume is published to node %s (NVMeVolumeAttachment %s)", holder, held.Name)
	default:
		return refusef(errState, "the volume is published to node %s (NVMeVolumeAttachment %s); its annotation %s is for node %q",
			holder, held.Name, v1alpha1.ForceDetachAnnotation, permitted)
	}
	uid, version := held.UID, held.ResourceVersion
	err := s.client.Delete(ctx, held, client.Preconditions{UID: &uid, ResourceVersion: &version})
	switch {
	case apierrors.IsConflict(err):
		return refusef(errBusy, "NVMeVolumeAttachment %s of node %s has just changed", held.Name, holder)
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("take the volume over from node %s: %w", holder, err)
	}
	log.FromContext(ctx).Info("volume is taken over", "attachment", held.Name, "attachmentID", held.Spec.AttachmentID, "holder", holder)
	return nil
}
