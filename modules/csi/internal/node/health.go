package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/staging"
)

// NodeGetVolumeHealth tells what is wrong with a volume on this node. It reads
// sysfs and the mount table, asks a filesystem that should be well, and cannot
// hang on a device that is not.
func (s *Server) NodeGetVolumeHealth(ctx context.Context, req *csi.NodeGetVolumeHealthRequest) (*csi.NodeGetVolumeHealthResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, toStatus(invalidf("volume_id is missing"))
	}
	v, err := parseVolume(req.GetVolumeId())
	if err != nil {
		return nil, toStatus(refusef(codes.NotFound, "no such volume here: %w", err))
	}
	paths := map[string]string{"staging_target_path": req.GetStagingTargetPath(), "volume_publish_path": req.GetVolumePublishPath()}
	for field, path := range paths {
		if path == "" {
			continue
		}
		if _, err := parsePath(field, path); err != nil {
			return nil, toStatus(err)
		}
	}
	x, err := s.examine(v, paths["staging_target_path"], paths["volume_publish_path"])
	if err != nil {
		return nil, toStatus(err)
	}
	entries := x.findings()
	if len(x.mounts) > 0 && !slices.ContainsFunc(entries, inaccessible) {
		entries = append(entries, s.askFilesystem(ctx, x.mounts[0])...)
	}
	s.maintainIfIdle(ctx, v.id)
	return &csi.NodeGetVolumeHealthResponse{VolumeHealth: &csi.VolumeHealth{VolumeId: v.id, HealthStatuses: entries}}, nil
}

// askFilesystem tells what a filesystem says of itself.
func (s *Server) askFilesystem(ctx context.Context, m filesystem.Mount) []*csi.VolumeHealth_VolumeHealthEntry {
	if _, err := s.usage(ctx, m.Path); err != nil {
		return []*csi.VolumeHealth_VolumeHealthEntry{finding(csi.VolumeHealthErrorType_INACCESSIBLE, "FilesystemFailed", err.Error())}
	}
	switch count, err := s.filesystems.Errors(m); {
	case err != nil:
		s.log.Error(err, "the errors of a filesystem are not known", "mount", m.Path)
	case count > 0:
		return []*csi.VolumeHealth_VolumeHealthEntry{finding(csi.VolumeHealthErrorType_DEGRADED, "FilesystemErrors",
			fmt.Sprintf("the kernel has found %d errors in the filesystem and may refuse writes until it is mounted again; e2fsck repairs it: %s", count, m))}
	}
	return nil
}

// examination is what was seen of one volume.
type examination struct {
	record staging.Record // zero without one
	device initiator.Device
	// missing is why there is no device.
	missing error
	paths   []initiator.Path
	// mounts are the volume's filesystem where it was staged and published; lost
	// are those, and bound device nodes, that show a device that is gone.
	mounts, lost []filesystem.Mount
}

func (s *Server) examine(v volume, stagingPath, publishPath string) (examination, error) {
	var x examination
	var found bool
	var err error
	if x.record, found, err = s.records.Load(v.id); err != nil && !errors.Is(err, staging.ErrCorrupt) {
		return examination{}, err
	}
	x.device, x.paths, x.missing = s.initiator.Look(identityOf(v))
	if stagingPath == "" {
		stagingPath = x.record.StagingPath
	}
	for _, path := range []string{stagingPath, publishPath} {
		if path == "" {
			continue
		}
		mounted, err := s.filesystems.MountsAt(path)
		if err != nil {
			return examination{}, err
		}
		for _, m := range mounted {
			if m.DeviceNode() == "" {
				x.mounts = append(x.mounts, m)
			}
			shows, err := s.shows(v, m, x.device)
			if err != nil {
				return examination{}, err
			}
			if x.missing == nil && !shows {
				x.lost = append(x.lost, m)
			}
		}
	}
	if !found && len(x.paths) == 0 && len(x.mounts) == 0 {
		return examination{}, refusef(codes.NotFound, "volume %s is neither staged nor connected on node %s", v.id, s.nodeID)
	}
	return x, nil
}

func finding(status csi.VolumeHealthErrorType, reason, message string) *csi.VolumeHealth_VolumeHealthEntry {
	return &csi.VolumeHealth_VolumeHealthEntry{Status: status, Reason: reason, Message: message}
}

func inaccessible(e *csi.VolumeHealth_VolumeHealthEntry) bool {
	return e.GetStatus() == csi.VolumeHealthErrorType_INACCESSIBLE
}

// findings are the entries for what was seen, each reason once.
func (x examination) findings() []*csi.VolumeHealth_VolumeHealthEntry {
	var found []*csi.VolumeHealth_VolumeHealthEntry
	add := func(status csi.VolumeHealthErrorType, reason, format string, args ...any) {
		if !slices.ContainsFunc(found, func(e *csi.VolumeHealth_VolumeHealthEntry) bool { return e.GetReason() == reason }) {
			found = append(found, finding(status, reason, fmt.Sprintf(format, args...)))
		}
	}
	if x.missing != nil {
		add(csi.VolumeHealthErrorType_INACCESSIBLE, reasonOf(x.missing), "%v", x.missing)
	} else if down := x.pathsDown(); down != "" {
		add(csi.VolumeHealthErrorType_DEGRADED, "PathDown", "%s", down)
	}
	if x.record.State == staging.Staged && !x.record.Block && len(x.mounts) == 0 {
		add(csi.VolumeHealthErrorType_INACCESSIBLE, "NotMounted", "nothing is mounted at %s", x.record.StagingPath)
	}
	for _, m := range x.lost {
		add(csi.VolumeHealthErrorType_INACCESSIBLE, "LostDeviceMounted", "%s shows a device that is gone; the volume's is %s %s", m, x.device.Name, x.device.Number)
	}
	for _, m := range x.mounts {
		switch {
		case slices.Contains(m.SuperOptions, "shutdown"):
			add(csi.VolumeHealthErrorType_INACCESSIBLE, "FilesystemShutDown", "the kernel has shut the filesystem down: %s", m)
		case m.FailedReadOnly():
			add(csi.VolumeHealthErrorType_DEGRADED, "ReadOnlyFilesystem", "the kernel has made the filesystem read-only, as it does after an error: %s", m)
		}
	}
	return found
}

// reasonOf names why a volume has no device.
func reasonOf(err error) string {
	var missing *initiator.NotFoundError
	switch {
	case errors.Is(err, initiator.ErrAmbiguous):
		return "AmbiguousIdentity"
	case !errors.As(err, &missing):
		return "Unknown"
	}
	switch missing.Reason {
	case initiator.NoController:
		return "NotConnected"
	case initiator.NoLiveController, initiator.NotReached:
		return "NoLivePath"
	case initiator.OtherIdentity:
		return "WrongIdentity"
	}
	return "DeviceGone"
}

// pathsDown names the paths that do not work; empty when all do.
func (x examination) pathsDown() string {
	var down []string
	for _, p := range x.paths {
		if !p.Live() {
			down = append(down, p.String())
		}
	}
	for _, portal := range x.record.Portals {
		if !slices.ContainsFunc(x.paths, func(p initiator.Path) bool { return p.Portal == portal }) {
			down = append(down, portal.String()+" not connected")
		}
	}
	return strings.Join(down, "; ")
}
