package node

import (
	"context"
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/csi/internal/blockdev"
	"github.com/distort-io/distort/modules/csi/internal/staging"
)

// NodeUnstageVolume unmounts the staging path and disconnects. It answers OK
// only when sysfs shows no controller of the volume's subsystem.
func (s *Server) NodeUnstageVolume(ctx context.Context, req *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	r, err := parseUnstage(req)
	if err != nil {
		return nil, toStatus(err)
	}
	ctx, done, err := s.begin(ctx, r.id)
	if err != nil {
		return nil, toStatus(err)
	}
	defer done()
	if err := s.unstage(ctx, r); err != nil {
		return nil, toStatus(err)
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// unstage needs no staging record: the NQN follows from the handle, the rest
// from mount table and sysfs. A record adds where the volume was staged.
func (s *Server) unstage(ctx context.Context, r pathRequest) error {
	nqn := volumeNQN(r.volume)
	record, found, err := s.records.Load(r.id)
	switch {
	case errors.Is(err, staging.ErrCorrupt):
		s.log.Error(err, "unstage without the staging record", "volume", r.id)
	case err != nil:
		return err
	case found && record.StagingPath != r.path:
		elsewhere, err := s.filesystems.MountsAt(record.StagingPath)
		if err != nil {
			return err
		}
		if len(elsewhere) > 0 {
			return refusef(codes.FailedPrecondition, "volume %s is staged at %s, not at %s", r.id, record.StagingPath, r.path)
		}
	}
	if err := s.checkReleasable(r, nqn); err != nil {
		return err
	}
	if err := s.filesystems.Unmount(ctx, r.path); err != nil {
		return err
	}
	if err := s.initiator.Disconnect(ctx, nqn); err != nil {
		return err
	}
	return s.records.Delete(r.id)
}

// checkReleasable refuses while somebody still uses the volume (known faults
// ST10, ST17), or when what is mounted at the path is another volume.
func (s *Server) checkReleasable(r pathRequest, nqn string) error {
	mounted, err := s.filesystems.MountsAt(r.path)
	if err != nil {
		return err
	}
	var numbers []blockdev.Number
	path := r.path
	for _, m := range mounted {
		if err := s.checkOwner(r, m.Number, nqn); err != nil {
			return err
		}
		numbers, path = append(numbers, m.Number), m.Path
	}
	inUse, err := s.users(nqn, numbers, path)
	if err != nil {
		return err
	}
	if len(inUse) > 0 {
		return refusef(codes.FailedPrecondition, "volume %s is still mounted: %s", r.id, inUse[0])
	}
	return nil
}

// checkOwner refuses a mount that is known to be another volume's. A device
// that has left sysfs has no owner; what is mounted from it may go.
func (s *Server) checkOwner(r pathRequest, number blockdev.Number, nqn string) error {
	owner, found, err := s.initiator.Owner(number)
	if err != nil {
		return err
	}
	if found && owner != nqn {
		return refusef(codes.FailedPrecondition, "%s is a mount of subsystem %s, volume %s is %s", r.path, owner, r.id, nqn)
	}
	return nil
}
