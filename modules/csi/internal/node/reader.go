package node

import (
	"context"
	"fmt"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/formatonce"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
)

// replayOnce makes a volume fit for many readers. It is a copy, often of a filesystem
// that was in use, whose journal somebody has to replay: ext4 and xfs do it even
// when they are mounted for reading, and two nodes that did would write over each
// other. So the first node does it alone, by the attachment that only one node can
// have, mounts, grows and unmounts, and records that it is done before it counts as
// staged. distort-agent lets no other node in before that is recorded.
func (s *Server) replayOnce(ctx context.Context, r stageRequest, device initiator.Device, t filesystem.Type, o filesystem.MountOptions) error {
	ref := r.publish.Attachment
	if ref.Name != identity.AttachmentName(r.handle.UID) {
		return nil
	}
	record, err := s.recorder.Load(ctx, ref)
	if err != nil {
		return fmt.Errorf("%w: load it from attachment %s/%s: %w", formatonce.ErrRecord, ref.Namespace, ref.Name, err)
	}
	if record.Recovered() {
		return nil
	}
	if err := s.filesystems.SetReadOnly(ctx, device.Path, false); err != nil {
		return err
	}
	if err := s.filesystems.MountDevice(ctx, device.Path, device.Is, r.stagingPath, t, o); err != nil {
		return err
	}
	if err := s.fill(ctx, device); err != nil {
		return err
	}
	if err := s.filesystems.Unmount(ctx, r.stagingPath); err != nil {
		return err
	}
	if err := s.filesystems.SetReadOnly(ctx, device.Path, true); err != nil {
		return err
	}
	if !record.Finished() {
		record = r.publish.Recorded
	}
	record.RecoveredAt = s.now()
	if err := s.recorder.Save(ctx, ref, record); err != nil {
		return fmt.Errorf("%w: save it to attachment %s/%s: %w", formatonce.ErrRecord, ref.Namespace, ref.Name, err)
	}
	return nil
}

// mountReader mounts for reading from a device that takes no writes.
func (s *Server) mountReader(ctx context.Context, r stageRequest, device initiator.Device, t filesystem.Type, o filesystem.MountOptions) error {
	if err := s.filesystems.SetReadOnly(ctx, device.Path, true); err != nil {
		return err
	}
	return s.filesystems.MountDevice(ctx, device.Path, device.Is, r.stagingPath, t, o)
}
