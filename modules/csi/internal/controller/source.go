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
// filesystem or block size, before anything is made. A volume that an earlier call asked
// for has its source already.
func (s *Server) sourceIsThere(ctx context.Context, f *family, want request.CreateVolume) error {
	if want.Source == nil {
		return nil
	}
	if err := s.client.Get(ctx, f.key(want.ObjectName), f.empty()); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read %s %s: %w", f.kind, want.ObjectName, err)
	} else if err == nil {
		return nil
	}
	c, err := s.contentOf(ctx, want.Source.Handle)
	switch {
	case err != nil:
	case want.Size < c.size:
		err = refusef(request.ErrOutOfRange, "the source has %d bytes, asked for are %d", c.size, want.Size)
	case want.BlockSize != 0 && c.blockSize != 0 && want.BlockSize != c.blockSize:
		err = refusef(request.ErrInvalid, "parameter %s %d: what is made of a source has its block size, %d", request.ParameterBlockSize, want.BlockSize, c.blockSize)
	case c.filesystem == nil && want.Access.Mode == v1alpha1.ReadOnlyMany:
		err = refusef(errState, "the source has no filesystem yet, and no node could make one in a volume of access mode %s", want.Access.Mode)
	case c.filesystem != nil && want.Access.Filesystem != "" && want.Access.Filesystem != c.filesystem.Type:
		err = refusef(request.ErrInvalid, "the source has filesystem %s, asked for is %s", c.filesystem.Type, want.Access.Filesystem)
	}
	if err != nil {
		return fmt.Errorf("volume_content_source: %w", err)
	}
	return nil
}

// content is what is to be restored or cloned.
type content struct {
	// size in bytes.
	size int64
	// filesystem is its format record, nil when there is none.
	filesystem *v1alpha1.FilesystemStatus
	// blockSize in bytes; 0 when it is not known: ZFS chose it, or the volume that the
	// snapshot is of has gone. Then distort-agent refuses another one.
	blockSize int32
}

func (s *Server) contentOf(ctx context.Context, h handle.Handle) (content, error) {
	if h.Kind == handle.Snapshot {
		snapshot, err := s.existingSnapshot(ctx, h)
		if err != nil {
			return content{}, err
		}
		if snapshot.DeletionTimestamp != nil || !snapshot.Status.ReadyToUse {
			return content{}, refusef(errNotYet, "Snapshot %s is not ready to use: %s", h.Name, snapshotProgress(snapshot))
		}
		of := &v1alpha1.Volume{}
		if err := s.client.Get(ctx, client.ObjectKey{Name: snapshot.Spec.Source.Name}, of); client.IgnoreNotFound(err) != nil {
			return content{}, fmt.Errorf("read Volume %s: %w", snapshot.Spec.Source.Name, err)
		}
		if of.UID != snapshot.Spec.Source.UID {
			of = &v1alpha1.Volume{}
		}
		return content{snapshot.Status.Size, snapshot.Status.Filesystem, of.Spec.VolBlockSize}, nil
	}
	v, err := s.existingVolume(ctx, h)
	switch {
	case err != nil:
		return content{}, err
	case v.GetDeletionTimestamp() != nil:
		return content{}, refusef(errState, "%s %s is being deleted", v1alpha1.KindVolume, h.Name)
	case !v.IsCarved():
		return content{}, refusef(errNotYet, "%s %s is not made yet", v1alpha1.KindVolume, h.Name)
	}
	c := content{size: v.GetActualSize(), filesystem: v.GetFilesystemStatus()}
	if zvol, ok := v.(*v1alpha1.Volume); ok {
		c.blockSize = zvol.Spec.VolBlockSize
	}
	return c, nil
}
