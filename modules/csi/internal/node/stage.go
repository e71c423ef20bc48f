package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/csi/internal/blockdev"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/formatonce"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/metrics"
	"github.com/distort-io/distort/modules/csi/internal/staging"
)

// NodeStageVolume connects the volume, proves that the device is the volume,
// formats it if it never was, mounts it at the staging path and grows a
// filesystem that is smaller than its device. A raw block volume is connected
// and proven only.
func (s *Server) NodeStageVolume(ctx context.Context, req *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	r, err := parseStage(req)
	if err != nil {
		return nil, toStatus(err)
	}
	ctx, done, err := s.begin(ctx, r.id)
	if err != nil {
		return nil, toStatus(err)
	}
	defer done()
	if err := s.stage(ctx, r); err != nil {
		return nil, toStatus(err)
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

func (s *Server) stage(ctx context.Context, r stageRequest) error {
	if err := s.checkContext(r.volume, r.use); err != nil {
		return err
	}
	before, known, _ := s.records.Load(r.id) // recordStage says what is wrong with it
	if err := s.recordStage(r); err != nil {
		return err
	}
	err := s.bringUp(ctx, r)
	if again := known && before.State == staging.Staged; err == nil && !again && !r.publish.AttachedAt.IsZero() {
		metrics.Mounted(time.Since(r.publish.AttachedAt))
	}
	// What somebody else connected is his to disconnect.
	if err != nil && final(code(err)) && !errors.Is(err, initiator.ErrForeign) {
		s.undo(ctx, r)
	}
	return err
}

// checkContext refuses a publish context that is not of this volume or not for
// this node (design.md §6, known fault SE8). All of it is derived, so a context
// of another volume cannot pass.
func (s *Server) checkContext(v volume, u use) error {
	uid := v.handle.UID
	for _, c := range []struct{ what, got, want string }{
		{"host NQN", u.publish.HostNQN, s.hostNQN},
		{"subsystem NQN", u.publish.Namespace.NQN, volumeNQN(v)},
		{"namespace UUID", u.publish.Namespace.UUID, identity.NamespaceUUID(uid)},
		{"filesystem UUID", u.publish.FilesystemUUID, identity.FilesystemUUID(uid)},
	} {
		if c.got != c.want {
			return refusef(codes.FailedPrecondition, "publish_context: %s is %s, for volume %s on node %s it must be %s",
				c.what, c.got, v.id, s.nodeID, c.want)
		}
	}
	return nil
}

func volumeNQN(v volume) string { return identity.VolumeNQN(identity.ExternalID(v.handle.UID)) }

// recordStage writes the staging record before the first side effect, and
// refuses to build on a mount of another attachment: that host may have been
// fenced in between, and its dirty pages must not come back.
func (s *Server) recordStage(r stageRequest) error {
	want := r.record(staging.Staging)
	old, found, err := s.records.Load(r.id)
	if err != nil && !errors.Is(err, staging.ErrCorrupt) {
		return err
	}
	if found {
		if old.SameStage(want) {
			return nil
		}
		inUse, err := s.users(volumeNQN(r.volume), nil, "")
		if err != nil {
			return err
		}
		more, err := s.filesystems.MountsAt(old.StagingPath)
		if err != nil {
			return err
		}
		if inUse = append(inUse, more...); len(inUse) > 0 {
			return refusef(codes.FailedPrecondition,
				"volume %s is staged at %s (block %t) for attachment %s and in use by %s; asked for %s (block %t) and attachment %s: unstage it first",
				r.id, old.StagingPath, old.Block, old.AttachmentID, inUse[0], r.stagingPath, r.block, r.publish.AttachmentID)
		}
	}
	return s.records.Save(want)
}

// record is the staging record of this stage.
func (r stageRequest) record(state staging.State) staging.Record {
	return staging.Record{
		VolumeHandle: r.id, AttachmentID: r.publish.AttachmentID, Identity: r.publish.Namespace,
		StagingPath: r.stagingPath, Block: r.block, State: state, Portals: r.publish.Portals, Params: r.context.Connection,
	}
}

func (s *Server) bringUp(ctx context.Context, r stageRequest) error {
	staged := r.record(staging.Staged)
	if err := s.initiator.Connect(ctx, s.target(staged)); err != nil {
		return err
	}
	device, err := s.initiator.Find(ctx, r.publish.Namespace)
	if err != nil {
		return err
	}
	// Held until the mount holds it: meanwhile no other volume can get its name.
	hold, err := s.initiator.Hold(ctx, device)
	if err != nil {
		return err
	}
	defer func() {
		if err := hold.Close(); err != nil {
			s.log.Error(err, "close device", "device", device.Path)
		}
	}()
	if !r.block {
		if err := s.mountStage(ctx, r, device); err != nil {
			return err
		}
	}
	return s.records.Save(staged)
}

func (s *Server) mountStage(ctx context.Context, r stageRequest, device initiator.Device) error {
	neverFormat, err := s.neverFormat(r, device)
	if err != nil {
		return err
	}
	fsType, err := s.formatter.Ensure(ctx, formatonce.Request{
		Device: device.Path, Type: r.fsType, UUID: r.publish.FilesystemUUID, Zeroed: r.publish.Zeroed,
		Options:     func(t filesystem.Type) ([]string, error) { return r.context.MkfsArguments(string(t)) },
		NeverFormat: neverFormat, Attachment: r.publish.Attachment, Recorded: r.publish.Recorded,
	})
	if err != nil {
		return err
	}
	options, err := filesystem.ParseMountOptions(fsType, r.mountFlags)
	if err != nil {
		return err
	}
	mount := func() error {
		return s.filesystems.MountDevice(ctx, device.Path, device.Is, r.stagingPath, fsType, options)
	}
	if r.readOnly {
		if err := s.replayOnce(ctx, r, device, fsType, options.Writable()); err != nil {
			return err
		}
		mount = func() error { return s.mountReader(ctx, r, device, fsType, options.ReadOnly()) }
	}
	if r.context.CheckFilesystem {
		if err := s.checkFilesystem(ctx, r, device, fsType, mount); err != nil {
			return err
		}
	}
	if err := mount(); err != nil {
		return err
	}
	return s.fill(ctx, device)
}

// fill grows a filesystem that is smaller than its device: the volume may have grown
// while no node had it, or be a copy of a smaller one.
func (s *Server) fill(ctx context.Context, device initiator.Device) error {
	m, found, err := s.writable(device)
	if err != nil || !found {
		return err
	}
	_, err = s.filesystems.Grow(ctx, m, device.Size)
	return err
}

// checkFilesystem looks for damage before a volume is staged. It mounts and
// unmounts first, which replays the journal. A volume that is staged or published
// already was checked then.
func (s *Server) checkFilesystem(ctx context.Context, r stageRequest, device initiator.Device, t filesystem.Type, mount func() error) error {
	old, found, err := s.records.Load(r.id)
	if err != nil {
		return err
	}
	mounted, err := s.filesystems.MountsAt(r.stagingPath)
	if err != nil {
		return err
	}
	except := ""
	if len(mounted) > 0 {
		if found && old.State == staging.Staged {
			return nil
		}
		except = mounted[0].Path
	}
	published, err := s.users(volumeNQN(r.volume), nil, except)
	if err != nil || len(published) > 0 {
		return err
	}
	if err := mount(); err != nil {
		return err
	}
	if err := s.filesystems.Unmount(ctx, r.stagingPath); err != nil {
		return err
	}
	return s.filesystems.Check(ctx, device.Path, t)
}

// neverFormat is why this device must not be formatted now; empty when it may.
func (s *Server) neverFormat(r stageRequest, device initiator.Device) (string, error) {
	if r.readOnly {
		return "the volume is read by many nodes", nil
	}
	mounts, err := s.filesystems.Mounts()
	if err != nil {
		return "", err
	}
	for _, m := range mounts {
		if device.Is(m.Number) {
			return fmt.Sprintf("it is mounted at %s", m.Path), nil
		}
	}
	return "", nil
}

// undo takes back a stage that ends with an answer after which kubelet may
// forget the volume. It never touches what is mounted, and what it cannot undo
// the record keeps for an unstage.
func (s *Server) undo(ctx context.Context, r stageRequest) {
	nqn := volumeNQN(r.volume)
	inUse, err := s.users(nqn, nil, "")
	if err != nil || len(inUse) > 0 {
		s.log.Info("left a refused stage as it is", "volume", r.id, "inUse", len(inUse), "error", fmt.Sprint(err))
		return
	}
	if err := s.initiator.Disconnect(ctx, nqn); err != nil {
		s.log.Error(err, "disconnect after a refused stage", "volume", r.id)
		return
	}
	if err := s.records.Delete(r.id); err != nil {
		s.log.Error(err, "forget a refused stage", "volume", r.id)
	}
}

// users lists the mounts of the subsystem's devices, and of further ones by
// number, but for those at exceptPath: filesystems and bound device nodes.
func (s *Server) users(nqn string, numbers []blockdev.Number, exceptPath string) ([]filesystem.Mount, error) {
	blocks, err := s.initiator.Blocks(nqn)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	byNumber := map[blockdev.Number]bool{}
	for _, b := range blocks {
		names[b.Name], byNumber[b.Number] = true, true
	}
	for _, n := range numbers {
		byNumber[n] = true
	}
	mounts, err := s.filesystems.Mounts()
	if err != nil {
		return nil, err
	}
	var found []filesystem.Mount
	for _, m := range mounts {
		if m.Path != exceptPath && (byNumber[m.Number] || names[m.DeviceNode()]) {
			found = append(found, m)
		}
	}
	return found, nil
}
