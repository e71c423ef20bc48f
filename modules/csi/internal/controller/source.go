package controller

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

// sourceIsThere refuses a volume whose source does not exist, is larger, or has another
// filesystem, before anything is made. A volume that an earlier call asked for has its source already.
func (s *Server) sourceIsThere(ctx context.Context, f *family, want request.CreateVolume) error {
	if want.Source == nil {
		return nil
	}
	if err := s.client.Get(ctx, f.key(want.ObjectName), f.empty()); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read %s %s: %w", f.kind, want.ObjectName, err)
	} else if err == nil {
		return nil
	}
	size, formatted, err := s.contentOf(ctx, want.Source.Handle)
	switch {
	case err != nil:
	case want.Size < size:
		err = refusef(request.ErrOutOfRange, "the source has %d bytes, asked for are %d", size, want.Size)
	case formatted == nil && want.Access.Mode == v1alpha1.ReadOnlyMany:
		err = refusef(errState, "the source has no filesystem yet, and no node could make one in a volume of access mode %s", want.Access.Mode)
	case formatted != nil && want.Access.Filesystem != "" && want.Access.Filesystem != formatted.Type:
		err = refusef(request.ErrInvalid, "the source has filesystem %s, asked for is %s", formatted.Type, want.Access.Filesystem)
	}
	if err != nil {
		return fmt.Errorf("volume_content_source: %w", err)
	}
	return nil
}

// contentOf is the size in bytes of what is to be restored or cloned, and its format
// record, nil when there is none.
func (s *Server) contentOf(ctx context.Context, h handle.Handle) (int64, *v1alpha1.FilesystemStatus, error) {
	if h.Kind == handle.Snapshot {
		snapshot, err := s.existingSnapshot(ctx, h)
		if err != nil {
			return 0, nil, err
		}
		if snapshot.DeletionTimestamp != nil || !snapshot.Status.ReadyToUse {
			return 0, nil, refusef(errNotYet, "Snapshot %s is not ready to use: %s", h.Name, snapshotProgress(snapshot))
		}
		return snapshot.Status.Size, snapshot.Status.Filesystem, nil
	}
	v, err := s.existingVolume(ctx, h)
	switch {
	case err != nil:
		return 0, nil, err
	case v.GetDeletionTimestamp() != nil:
		return 0, nil, refusef(errState, "%s %s is being deleted", v1alpha1.KindVolume, h.Name)
	case !v.IsCarved():
		return 0, nil, refusef(errNotYet, "%s %s is not made yet", v1alpha1.KindVolume, h.Name)
	}
	return v.GetActualSize(), v.GetFilesystemStatus(), nil
}
