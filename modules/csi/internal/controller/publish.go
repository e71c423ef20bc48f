package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/await"
	"github.com/distort-io/distort/modules/csi/internal/request"
	"github.com/distort-io/distort/modules/csi/internal/telemetry"
)

// ControllerPublishVolume makes the attachment of a node and waits until the
// target admits exactly that host.
func (s *Server) ControllerPublishVolume(ctx context.Context, r *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	want, err := request.ParsePublish(r, s.namespace)
	if err != nil {
		return nil, toStatus(err)
	}
	release, err := s.guard(want.Volume.Name)
	if err != nil {
		return nil, toStatus(err)
	}
	defer release()
	published, err := s.publish(ctx, want)
	if err != nil {
		return nil, toStatus(fmt.Errorf("publish volume %s to node %s: %w", want.Volume, want.NodeID, err))
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: published}, nil
}

func (s *Server) publish(ctx context.Context, want request.Publish) (map[string]string, error) {
	p, err := s.existingVolume(ctx, want.Volume)
	if err != nil {
		return nil, err
	}
	node, err := s.knownNode(ctx, want.NodeID)
	if err != nil {
		return nil, err
	}
	switch err := want.Access.Suits(p); {
	case err != nil:
		return nil, err
	case p.GetDeletionTimestamp() != nil:
		return nil, refusef(errState, "the volume is being deleted")
	case p.GetTargetNode() == "":
		return nil, refusef(errNotYet, "the volume is not placed yet")
	}
	name, err := s.attachmentName(ctx, p, want.NodeID)
	if err != nil {
		return nil, err
	}
	sub := s.attachments.Subscribe(s.key(name))
	defer sub.Close()
	a, err := s.attach(ctx, sub, name, p, node)
	if err != nil {
		return nil, err
	}
	latest := a
	a, err = sub.Until(ctx, await.Present(a.UID, func(a *v1alpha1.NVMeVolumeAttachment) (bool, error) {
		latest = a
		if a.DeletionTimestamp != nil {
			return false, refusef(errBusy, "NVMeVolumeAttachment %s is being withdrawn", a.Name)
		}
		return granted(a)
	}))
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%s: %w", access(latest), err)
	}
	if err != nil {
		return nil, err
	}
	return publishContext(p, a)
}

// attachmentName is one for the volume where it has one user, so that two
// attachments of a single-writer volume cannot exist (design.md §3). A volume that
// many nodes read has one writer too, until its journal is replayed: the node that
// comes first does that alone, and keeps the attachment by which it did.
func (s *Server) attachmentName(ctx context.Context, p v1alpha1.Slice, nodeID string) (string, error) {
	alone, shared := identity.AttachmentName(string(p.GetUID())), identity.SharedAttachmentName(string(p.GetUID()), nodeID)
	switch mode := p.GetAccessMode(); {
	case request.SingleNode(mode):
		return alone, nil
	case mode != v1alpha1.ReadOnlyMany:
		return shared, nil
	case !p.GetFilesystemStatus().Recovered():
		return alone, nil
	}
	first := newAttachment()
	if err := s.client.Get(ctx, s.key(alone), first); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read NVMeVolumeAttachment %s: %w", alone, err)
	}
	if first.Spec.NodeID == nodeID {
		return alone, nil
	}
	return shared, nil
}

// attach returns the node's attachment, made now or before. One of the same
// node that is being revoked goes first, and so does another node's that a person
// permits to be taken over; any other is that node's.
func (s *Server) attach(ctx context.Context, sub *await.Subscription[*v1alpha1.NVMeVolumeAttachment], name string, p v1alpha1.Slice, node *storagev1.CSINodeDriver) (*v1alpha1.NVMeVolumeAttachment, error) {
	key, nodeID := s.key(name), node.NodeID
	for {
		a, cached := newAttachment(), true
		err := s.client.Get(ctx, key, a)
		if apierrors.IsNotFound(err) {
			if err := s.hasSlot(ctx, node); err != nil {
				return nil, err
			}
			a = s.newAttachmentFor(name, p, nodeID)
			telemetry.Mark(ctx, a)
			if err = s.client.Create(ctx, a); apierrors.IsAlreadyExists(err) {
				a, cached = newAttachment(), false
				if err = s.live.Get(ctx, key, a); apierrors.IsNotFound(err) {
					return nil, refusef(errBusy, "NVMeVolumeAttachment %s is being made and removed", key)
				}
			}
		}
		if err != nil {
			return nil, fmt.Errorf("make NVMeVolumeAttachment %s: %w", key, err)
		}
		switch {
		case a.Spec.VolumeRef.UID != p.GetUID():
			return nil, refusef(errFailed, "NVMeVolumeAttachment %s is of volume %s", key, a.Spec.VolumeRef.UID)
		case a.Spec.NodeID != nodeID && a.DeletionTimestamp != nil:
			return nil, refusef(errState, "access of node %s is still being revoked (%s)", a.Spec.NodeID, access(a))
		case a.Spec.NodeID != nodeID:
			if err := s.takeOver(ctx, a); err != nil {
				if p.GetAccessMode() == v1alpha1.ReadOnlyMany {
					err = fmt.Errorf("the first node that reads the volume replays its journal, alone: %w", err)
				}
				return nil, err
			}
		case a.DeletionTimestamp == nil:
			return a, nil
		}
		if err := s.revoked(ctx, sub, a, cached); err != nil {
			return nil, err
		}
	}
}

func (s *Server) newAttachmentFor(name string, p v1alpha1.Slice, nodeID string) *v1alpha1.NVMeVolumeAttachment {
	return &v1alpha1.NVMeVolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Finalizers: []string{v1alpha1.AccessFinalizer}},
		Spec: v1alpha1.NVMeVolumeAttachmentSpec{
			VolumeRef:    p.GetReference(),
			TargetNode:   p.GetTargetNode(),
			NodeID:       nodeID,
			HostNQN:      identity.HostNQN(nodeID),
			AttachmentID: s.newAttachmentID(),
		},
	}
}
