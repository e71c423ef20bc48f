package controller

import (
	"context"
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/distort-io/distort/modules/csi/internal/request"
)

// The calls of this file ask for what no backend of this version can do. Their
// capabilities are not offered; whoever calls them nevertheless is told why.

// ControllerModifyVolume refuses, naming the parameters that cannot change.
func (s *Server) ControllerModifyVolume(ctx context.Context, r *csi.ControllerModifyVolumeRequest) (*csi.ControllerModifyVolumeResponse, error) {
	h, err := request.ParseModify(r, s.namespace)
	if err != nil {
		return nil, toStatus(err)
	}
	p, err := s.existingVolume(ctx, h)
	if err != nil {
		return nil, toStatus(err)
	}
	return nil, toStatus(request.RefuseModify(r, p))
}

// CreateSnapshot refuses: no volume of this version has snapshots.
func (s *Server) CreateSnapshot(ctx context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	h, err := request.ParseCreateSnapshot(r, s.namespace)
	if err != nil {
		return nil, toStatus(err)
	}
	p, err := s.existingVolume(ctx, h)
	if err != nil {
		return nil, toStatus(err)
	}
	return nil, toStatus(request.RefuseSnapshot(p))
}

// DeleteSnapshot is OK for what was never a snapshot of this driver, and an
// error for one that another version may have made.
func (s *Server) DeleteSnapshot(_ context.Context, r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if err := request.ParseDeleteSnapshot(r); !errors.Is(err, request.ErrNoSnapshot) {
		return nil, toStatus(err)
	}
	return &csi.DeleteSnapshotResponse{}, nil
}
