package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

// GetCapacity tells how much room there is for volumes of these parameters in a
// network domain, so that pods are not sent where there is none (known fault
// PL2).
func (s *Server) GetCapacity(ctx context.Context, r *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	want, err := request.ParseCapacity(r, s.defaults)
	if err != nil {
		return nil, toStatus(err)
	}
	room, err := s.inventory.Room(ctx, want)
	if err != nil {
		return nil, toStatus(err)
	}
	return &csi.GetCapacityResponse{
		AvailableCapacity: room.Total,
		MaximumVolumeSize: wrapperspb.Int64(room.Largest),
		MinimumVolumeSize: wrapperspb.Int64(capacity.Unit),
	}, nil
}
