package node

import (
	"context"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/distort-io/distort/modules/csi/internal/filesystem"
)

// answerTimeout bounds the wait for a filesystem that is asked how it is.
const answerTimeout = 10 * time.Second

// NodeGetVolumeStats tells how full a filesystem is, or how large a raw block
// volume.
func (s *Server) NodeGetVolumeStats(ctx context.Context, req *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	r, err := parsePlace(req.GetVolumeId(), req.GetVolumePath())
	if err != nil {
		return nil, toStatus(err)
	}
	usage, err := s.stats(ctx, r)
	if err != nil {
		return nil, toStatus(err)
	}
	s.maintainIfIdle(ctx, r.id)
	return &csi.NodeGetVolumeStatsResponse{Usage: usage}, nil
}

func (s *Server) stats(ctx context.Context, r pathRequest) ([]*csi.VolumeUsage, error) {
	p, err := s.locate(r)
	if err != nil {
		return nil, err
	}
	if p.block {
		device, _, err := s.initiator.Look(identityOf(r.volume))
		if err != nil {
			return nil, err
		}
		if err := s.checkShows(r, p, device); err != nil {
			return nil, err
		}
		return []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: device.Size}}, nil
	}
	u, err := s.usage(ctx, p.mount.Path)
	if err != nil {
		return nil, err
	}
	amount := func(unit csi.VolumeUsage_Unit, a filesystem.Amount) *csi.VolumeUsage {
		return &csi.VolumeUsage{Unit: unit, Total: a.Total, Used: a.Used, Available: a.Available}
	}
	return []*csi.VolumeUsage{amount(csi.VolumeUsage_BYTES, u.Bytes), amount(csi.VolumeUsage_INODES, u.Inodes)}, nil
}

func (s *Server) usage(ctx context.Context, path string) (filesystem.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, min(answerTimeout, s.timeout))
	defer cancel()
	return s.filesystems.Usage(ctx, path)
}
