package controller

import (
	"context"
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/distort-io/distort/modules/csi/internal/request"
)

// ValidateVolumeCapabilities tells whether a volume can be used in these ways;
// if not, the message says why.
func (s *Server) ValidateVolumeCapabilities(ctx context.Context, r *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	want, err := request.ParseValidate(r, s.namespace)
	if err != nil {
		return nil, toStatus(err)
	}
	p, err := s.existingVolume(ctx, want.Volume)
	if err != nil {
		return nil, toStatus(err)
	}
	err = want.Confirm(r, s.defaults, func(a request.Access) error { return a.Suits(p) })
	if errors.Is(err, request.ErrInvalid) {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
	}
	if err != nil {
		return nil, toStatus(err)
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeCapabilities: r.GetVolumeCapabilities(),
		VolumeContext:      r.GetVolumeContext(),
		Parameters:         r.GetParameters(),
	}}, nil
}
