package node

import (
	"context"
	"errors"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/staging"
)

// NodePublishVolume shows the staged volume at the target path: a bind mount
// of the filesystem, or of the device node.
func (s *Server) NodePublishVolume(ctx context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	r, err := parsePublish(req)
	if err != nil {
		return nil, toStatus(err)
	}
	ctx, done, err := s.begin(ctx, r.id)
	if err != nil {
		return nil, toStatus(err)
	}
	defer done()
	if err := s.publish(ctx, r); err != nil {
		return nil, toStatus(err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (s *Server) publish(ctx context.Context, r publishRequest) error {
	if err := s.checkContext(r.volume, r.use); err != nil {
		return err
	}
	record, err := s.staged(r)
	if err != nil {
		return err
	}
	if err := s.checkSingleWriter(r); err != nil {
		return err
	}
	if record.Block {
		err = s.publishBlock(ctx, r, record)
	} else {
		err = s.publishMount(ctx, r)
	}
	if err == nil {
		s.maintain(ctx, record)
	}
	return err
}

// staged returns the record of a stage that this publish may build on: of the
// attachment that is published, not of an older one (design.md §6).
func (s *Server) staged(r publishRequest) (staging.Record, error) {
	record, found, err := s.records.Load(r.id)
	switch {
	case errors.Is(err, staging.ErrCorrupt):
		return staging.Record{}, refusef(codes.FailedPrecondition, "volume %s must be staged again: %w", r.id, err)
	case err != nil:
		return staging.Record{}, err
	case !found || record.State != staging.Staged:
		return staging.Record{}, refusef(codes.FailedPrecondition, "volume %s is not staged", r.id)
	case record.AttachmentID != r.publish.AttachmentID:
		return staging.Record{}, refusef(codes.FailedPrecondition, "volume %s is staged for attachment %s, asked to publish attachment %s",
			r.id, record.AttachmentID, r.publish.AttachmentID)
	case record.StagingPath != r.stagingPath:
		return staging.Record{}, refusef(codes.FailedPrecondition, "volume %s is staged at %s, not at %s", r.id, record.StagingPath, r.stagingPath)
	case record.Block != r.block:
		return staging.Record{}, refusef(codes.FailedPrecondition, "volume %s is staged with block access %t, asked to publish with %t", r.id, record.Block, r.block)
	}
	return record, nil
}

// checkSingleWriter keeps a SINGLE_NODE_SINGLE_WRITER volume to one target.
func (s *Server) checkSingleWriter(r publishRequest) error {
	if !r.singleWriter {
		return nil
	}
	here, err := s.filesystems.MountsAt(r.targetPath)
	if err != nil || len(here) > 0 {
		return err
	}
	stage, err := s.filesystems.MountsAt(r.stagingPath)
	if err != nil {
		return err
	}
	except := r.stagingPath
	if len(stage) > 0 {
		except = stage[0].Path
	}
	others, err := s.users(volumeNQN(r.volume), nil, except)
	if err != nil || len(others) == 0 {
		return err
	}
	return refusef(codes.FailedPrecondition, "volume %s has a single writer and is published at %s", r.id, others[0].Path)
}

func (s *Server) publishMount(ctx context.Context, r publishRequest) error {
	if err := s.checkStageAlive(r); err != nil {
		return err
	}
	if err := s.filesystems.MakeDir(r.targetPath); err != nil {
		return err
	}
	return s.filesystems.Bind(ctx, r.stagingPath, r.targetPath, r.readOnly)
}

// checkStageAlive proves that the staging path shows the volume's present
// device: after a lost connection the old mount stays, dead, while a new device
// appears under another name.
func (s *Server) checkStageAlive(r publishRequest) error {
	mounted, err := s.filesystems.MountsAt(r.stagingPath)
	if err != nil {
		return err
	}
	blocks, err := s.initiator.Blocks(volumeNQN(r.volume))
	if err != nil {
		return err
	}
	alive := func(m filesystem.Mount) bool {
		return slices.ContainsFunc(blocks, func(b initiator.Block) bool { return b.Number == m.Number })
	}
	switch {
	case len(mounted) == 0:
		return refusef(codes.FailedPrecondition, "volume %s is not mounted at %s: stage it again", r.id, r.stagingPath)
	case !alive(mounted[len(mounted)-1]):
		return refusef(codes.FailedPrecondition, "%s shows a device that the volume %s no longer has: %s", r.stagingPath, r.id, mounted[len(mounted)-1])
	}
	return nil
}

func (s *Server) publishBlock(ctx context.Context, r publishRequest, record staging.Record) error {
	device, err := s.initiator.Find(ctx, record.Identity)
	if err != nil {
		return err
	}
	hold, err := s.initiator.Hold(ctx, device)
	if err != nil {
		return err
	}
	defer func() {
		if err := hold.Close(); err != nil {
			s.log.Error(err, "close device", "device", device.Path)
		}
	}()
	if err := s.filesystems.MakeFile(r.targetPath); err != nil {
		return err
	}
	return s.filesystems.BindDevice(ctx, device.Path, device.Is, r.targetPath)
}
