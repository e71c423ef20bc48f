package node

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/csi/internal/request"
)

type expandRequest struct {
	pathRequest
	// required and limit are sizes in bytes; 0 is none.
	required, limit int64
}

// NodeExpandVolume waits until the device has the size asked for, grows the
// filesystem on it, and answers the size of the device as it was read back.
func (s *Server) NodeExpandVolume(ctx context.Context, req *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	r, err := parseExpand(req)
	if err != nil {
		return nil, toStatus(err)
	}
	ctx, done, err := s.begin(ctx, r.id)
	if err != nil {
		return nil, toStatus(err)
	}
	defer done()
	size, err := s.expand(ctx, r)
	if err != nil {
		return nil, toStatus(err)
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: size}, nil
}

func parseExpand(r *csi.NodeExpandVolumeRequest) (expandRequest, error) {
	at, err := parsePlace(r.GetVolumeId(), r.GetVolumePath())
	if err != nil {
		return expandRequest{}, err
	}
	if c := r.GetVolumeCapability(); c != nil {
		if _, err := request.ParseCapability(c); err != nil {
			return expandRequest{}, invalidf("volume_capability: %w", err)
		}
	}
	e := expandRequest{pathRequest: at, required: r.GetCapacityRange().GetRequiredBytes(), limit: r.GetCapacityRange().GetLimitBytes()}
	switch {
	case e.required < 0, e.limit < 0:
		return expandRequest{}, invalidf("capacity_range: required_bytes %d, limit_bytes %d: want no negative numbers", e.required, e.limit)
	case e.limit > 0 && e.limit < e.required:
		return expandRequest{}, invalidf("capacity_range: limit_bytes %d is below required_bytes %d", e.limit, e.required)
	}
	return e, nil
}

func (s *Server) expand(ctx context.Context, r expandRequest) (int64, error) {
	p, err := s.locate(r.pathRequest)
	if err != nil {
		return 0, err
	}
	device, err := s.initiator.Resize(ctx, identityOf(r.volume), r.required)
	if err != nil {
		return 0, err
	}
	if err := s.checkShows(r.pathRequest, p, device); err != nil {
		return 0, err
	}
	if r.limit > 0 && device.Size > r.limit {
		return 0, refusef(codes.OutOfRange, "volume %s has %d bytes, limit_bytes is %d", r.id, device.Size, r.limit)
	}
	if p.block {
		return device.Size, nil
	}
	m, found, err := s.writable(device)
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, refusef(codes.FailedPrecondition, "the filesystem of volume %s is mounted read-only and cannot grow: %s", r.id, p.mount)
	}
	if _, err := s.filesystems.Grow(ctx, m, device.Size); err != nil {
		return 0, err
	}
	return device.Size, nil
}
