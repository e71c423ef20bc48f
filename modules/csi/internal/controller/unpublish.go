package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/await"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

// ControllerUnpublishVolume withdraws a node's access and waits until its
// attachment is gone. distort-agent lets it go only with proof that the host is
// fenced, so OK means that no write of it can arrive any more (design.md §6,
// known faults PU1, PU2, PU11). A node that is not attached is OK and changes
// nothing (PU7).
func (s *Server) ControllerUnpublishVolume(ctx context.Context, r *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	want, err := request.ParseUnpublish(r, s.namespace)
	if errors.Is(err, request.ErrNoVolume) {
		// Publish refuses such a volume, so it was never attached.
		return &csi.ControllerUnpublishVolumeResponse{}, nil
	}
	if err != nil {
		return nil, toStatus(err)
	}
	release, err := s.guard(want.Volume.Name)
	if err != nil {
		return nil, toStatus(err)
	}
	defer release()
	if err := s.unpublish(ctx, want); err != nil {
		return nil, toStatus(fmt.Errorf("unpublish volume %s: %w", want.Volume, err))
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

func (s *Server) unpublish(ctx context.Context, want request.Unpublish) error {
	held, cached, err := s.holders(ctx, want)
	if err != nil {
		return err
	}
	var revocations []func() error
	for _, a := range held {
		sub := s.attachments.Subscribe(s.key(a.Name))
		defer sub.Close()
		if err := s.remove(ctx, &a); err != nil {
			return err
		}
		revocations = append(revocations, func() error { return s.revoked(ctx, sub, &a, cached) })
	}
	for _, wait := range revocations {
		if err := wait(); err != nil {
			return err
		}
	}
	return nil
}

// answerMargin is kept back of the caller's time for saying what is missing: after
// its deadline nobody listens any more.
const answerMargin = 500 * time.Millisecond

// revoked waits until the attachment is gone, which is the proof that its host is
// fenced. Its error says which proof is missing.
func (s *Server) revoked(ctx context.Context, sub *await.Subscription[*v1alpha1.NVMeVolumeAttachment], a *v1alpha1.NVMeVolumeAttachment, cached bool) error {
	patience, cancel := ctx, context.CancelFunc(func() {})
	if deadline, bounded := ctx.Deadline(); bounded {
		patience, cancel = context.WithDeadline(ctx, deadline.Add(-answerMargin))
	}
	defer cancel()
	latest := a
	gone := await.Gone[*v1alpha1.NVMeVolumeAttachment](a.UID, cached)
	_, err := sub.Until(patience, func(o await.Observation[*v1alpha1.NVMeVolumeAttachment]) (bool, error) {
		if o.Found && o.Object.UID == a.UID {
			latest = o.Object
		}
		return gone(o)
	})
	if err != nil {
		return fmt.Errorf("access of node %s is not proven to be revoked (%s): %w", a.Spec.NodeID, s.missingProof(ctx, latest), err)
	}
	return nil
}

// missingProof says what keeps an attachment from going: what its agent has said
// of the revocation, or why it says nothing.
func (s *Server) missingProof(ctx context.Context, a *v1alpha1.NVMeVolumeAttachment) string {
	c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionAccessReady)
	if c != nil && c.Reason == v1alpha1.ReasonStorageNodeSilent {
		return describe(c)
	}
	silent := c == nil || c.Reason != v1alpha1.ReasonRevoking && c.Reason != v1alpha1.ReasonRevoked
	said := fmt.Sprintf("distort-agent on %s has not said that it drained and removed the export", a.Spec.TargetNode)
	if !silent {
		said = describe(c)
	}
	var node v1alpha1.RDMAStorageNode
	if err := s.live.Get(ctx, types.NamespacedName{Name: a.Spec.TargetNode}, &node); err != nil {
		return said
	}
	if ready := meta.FindStatusCondition(node.Status.Conditions, v1alpha1.ConditionReady); ready != nil && ready.Status != metav1.ConditionTrue {
		return fmt.Sprintf("%s; storage node %s is not ready since %s: %s: %s", said, a.Spec.TargetNode,
			ready.LastTransitionTime.UTC().Format(time.RFC3339), ready.Reason, ready.Message)
	}
	return said
}

// holders lists the attachments of a volume to the node, or to all nodes, and
// tells whether they come from the cache. That there is none is only believed
// of the API server.
func (s *Server) holders(ctx context.Context, want request.Unpublish) (held []v1alpha1.NVMeVolumeAttachment, cached bool, err error) {
	known, err := s.cachedAttachments(ctx, want.Volume.UID)
	if err != nil {
		return nil, false, err
	}
	if held = only(known, want); len(held) > 0 {
		return held, true, nil
	}
	if want.NodeID == "" {
		var list v1alpha1.NVMeVolumeAttachmentList
		if err := s.live.List(ctx, &list, client.InNamespace(s.namespace)); err != nil {
			return nil, false, fmt.Errorf("list attachments: %w", err)
		}
		return only(list.Items, want), false, nil
	}
	for _, name := range []string{identity.AttachmentName(want.Volume.UID), identity.SharedAttachmentName(want.Volume.UID, want.NodeID)} {
		var a v1alpha1.NVMeVolumeAttachment
		switch err := s.live.Get(ctx, s.key(name), &a); {
		case err == nil:
			known = append(known, a)
		case client.IgnoreNotFound(err) != nil:
			return nil, false, fmt.Errorf("read NVMeVolumeAttachment %s: %w", name, err)
		}
	}
	return only(known, want), false, nil
}

// only keeps the attachments that the request is about.
func only(all []v1alpha1.NVMeVolumeAttachment, want request.Unpublish) []v1alpha1.NVMeVolumeAttachment {
	var kept []v1alpha1.NVMeVolumeAttachment
	for _, a := range all {
		if string(a.Spec.VolumeRef.UID) == want.Volume.UID && (want.NodeID == "" || a.Spec.NodeID == want.NodeID) {
			kept = append(kept, a)
		}
	}
	return kept
}
