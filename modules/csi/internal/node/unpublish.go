package node

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// NodeUnpublishVolume unmounts the target path and removes it. The path itself
// is never looked at: on a dead filesystem that fails (known fault ST22).
func (s *Server) NodeUnpublishVolume(ctx context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	r, err := parseUnpublish(req)
	if err != nil {
		return nil, toStatus(err)
	}
	ctx, done, err := s.begin(ctx, r.id)
	if err != nil {
		return nil, toStatus(err)
	}
	defer done()
	if err := s.unpublish(ctx, r); err != nil {
		return nil, toStatus(err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (s *Server) unpublish(ctx context.Context, r pathRequest) error {
	mounted, err := s.filesystems.MountsAt(r.path)
	if err != nil {
		return err
	}
	for _, m := range mounted {
		if err := s.checkOwner(r, m.Number, volumeNQN(r.volume)); err != nil {
			return err
		}
	}
	if err := s.filesystems.Unmount(ctx, r.path); err != nil {
		return err
	}
	return s.filesystems.Remove(r.path)
}
