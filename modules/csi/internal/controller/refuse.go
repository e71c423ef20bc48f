package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/distort-io/distort/modules/csi/internal/request"
)

// ControllerModifyVolume refuses, naming the parameters that cannot change: no
// backend of this version has one that can. The capability is not offered; whoever
// calls it nevertheless is told why.
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
