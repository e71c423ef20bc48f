package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/await"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

// DeleteVolume deletes the volume's object and waits until it, in this life, is
// gone: that is distort-agent's word that capacity and export are (known faults
// DV4, DV8).
func (s *Server) DeleteVolume(ctx context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	h, err := request.ParseVolumeID(r.GetVolumeId(), s.namespace)
	if errors.Is(err, request.ErrNoVolume) {
		return &csi.DeleteVolumeResponse{}, nil
	}
	if err != nil {
		return nil, toStatus(err)
	}
	release, err := s.guard(h.Name)
	if err != nil {
		return nil, toStatus(err)
	}
	defer release()
	if err := s.deleteVolume(ctx, h); err != nil {
		return nil, toStatus(fmt.Errorf("delete volume %s: %w", h, err))
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (s *Server) deleteVolume(ctx context.Context, h handle.Handle) error {
	// Attachments that the cache has not heard of yet still hold the object:
	// distort-agent revokes every host before it lets go (known fault DV10).
	attached, err := s.cachedAttachments(ctx, h.UID)
	if err != nil {
		return err
	}
	if len(attached) > 0 {
		var holders []string
		for _, a := range attached {
			holders = append(holders, fmt.Sprintf("%s (node %s)", a.Name, a.Spec.NodeID))
		}
		return refusef(errState, "attached by NVMeVolumeAttachment %s", strings.Join(holders, ", "))
	}
	f := s.familyOf(h)
	sub := f.volumes.Subscribe(f.key(h.Name))
	defer sub.Close()
	p, cached, err := s.volumeNow(ctx, h)
	if err != nil || p == nil {
		return err
	}
	if err := s.remove(ctx, p); err != nil {
		return err
	}
	latest := p
	gone := await.Gone[v1alpha1.Slice](p.GetUID(), cached)
	_, err = sub.Until(ctx, func(o await.Observation[v1alpha1.Slice]) (bool, error) {
		if o.Found {
			latest = o.Object
			c := meta.FindStatusCondition(latest.GetConditions(), v1alpha1.ConditionExported)
			if latest.GetUID() == p.GetUID() && c != nil && (c.Reason == v1alpha1.ReasonHostsConnected || c.Reason == v1alpha1.ReasonHasDependants) {
				return false, refusef(errState, "%s", describe(c))
			}
		}
		return gone(o)
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", progress(latest), err)
	}
	return err
}

// remove asks for the deletion of an object in this life, once. That it is
// gone already, or that another one has its name, is success.
func (s *Server) remove(ctx context.Context, o client.Object) error {
	if o.GetDeletionTimestamp() != nil {
		return nil
	}
	uid := o.GetUID()
	err := s.client.Delete(ctx, o, client.Preconditions{UID: &uid})
	// The API server answers Conflict when the UID differs.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %T %s: %w", o, client.ObjectKeyFromObject(o), err)
	}
	return nil
}
