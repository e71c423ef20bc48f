package node

import (
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/publishcontext"
	"github.com/distort-io/distort/modules/csi/internal/request"
	"github.com/distort-io/distort/modules/csi/internal/volumecontext"
)

// volume is what every request names.
type volume struct {
	id     string
	handle handle.Handle
}

// use is how a volume is to be used, by capability and contexts.
type use struct {
	block bool
	// fsType is empty when the request leaves it open.
	fsType     filesystem.Type
	mountFlags []string
	// readOnly: no node writes.
	readOnly bool
	// singleWriter: one target path at most (SINGLE_NODE_SINGLE_WRITER).
	singleWriter bool
	publish      publishcontext.Context
}

type stageRequest struct {
	volume
	use
	stagingPath string
	context     volumecontext.Context
}

type publishRequest struct {
	volume
	use
	stagingPath, targetPath string
}

type pathRequest struct {
	volume
	path string
}

func parseStage(r *csi.NodeStageVolumeRequest) (stageRequest, error) {
	v, err := parseVolume(r.GetVolumeId())
	if err != nil {
		return stageRequest{}, err
	}
	path, err := parsePath("staging_target_path", r.GetStagingTargetPath())
	if err != nil {
		return stageRequest{}, err
	}
	u, err := parseUse(r.GetVolumeCapability(), r.GetPublishContext())
	if err != nil {
		return stageRequest{}, err
	}
	c, err := volumecontext.Decode(r.GetVolumeContext())
	if err != nil {
		return stageRequest{}, invalidf("volume_context: %w", err)
	}
	return stageRequest{volume: v, use: u, stagingPath: path, context: c}, nil
}

func parsePublish(r *csi.NodePublishVolumeRequest) (publishRequest, error) {
	v, err := parseVolume(r.GetVolumeId())
	if err != nil {
		return publishRequest{}, err
	}
	staging, err := parsePath("staging_target_path", r.GetStagingTargetPath())
	if err != nil {
		return publishRequest{}, err
	}
	target, err := parsePath("target_path", r.GetTargetPath())
	if err != nil {
		return publishRequest{}, err
	}
	if target == staging {
		return publishRequest{}, invalidf("target_path and staging_target_path are both %q", target)
	}
	u, err := parseUse(r.GetVolumeCapability(), r.GetPublishContext())
	if err != nil {
		return publishRequest{}, err
	}
	if r.GetReadonly() && u.block {
		// A read-only mount of a device node does not stop writes to the device.
		return publishRequest{}, invalidf("readonly with access type block: not supported")
	}
	u.readOnly = u.readOnly || r.GetReadonly()
	return publishRequest{volume: v, use: u, stagingPath: staging, targetPath: target}, nil
}

func parseUnstage(r *csi.NodeUnstageVolumeRequest) (pathRequest, error) {
	return parsePathRequest(r.GetVolumeId(), "staging_target_path", r.GetStagingTargetPath())
}

func parseUnpublish(r *csi.NodeUnpublishVolumeRequest) (pathRequest, error) {
	return parsePathRequest(r.GetVolumeId(), "target_path", r.GetTargetPath())
}

func parsePathRequest(id, field, path string) (pathRequest, error) {
	v, err := parseVolume(id)
	if err != nil {
		return pathRequest{}, err
	}
	p, err := parsePath(field, path)
	return pathRequest{volume: v, path: p}, err
}

// parseVolume accepts the handles of volumes; their grammar has no room for a
// path (known fault SE1).
func parseVolume(id string) (volume, error) {
	if id == "" {
		return volume{}, invalidf("volume_id is missing")
	}
	h, err := handle.Parse(id)
	if err != nil {
		return volume{}, invalidf("volume_id: %w", err)
	}
	if h.Kind != handle.NVMePartition && h.Kind != handle.Volume {
		return volume{}, invalidf("volume_id %q is the handle of a %s", id, h.Kind)
	}
	return volume{id: id, handle: h}, nil
}

// parsePlace reads the volume and the path of a request about a volume that is
// in use. What cannot be a volume, or a place of one, is not found (CSI spec,
// NodeGetVolumeStats Errors).
func parsePlace(id, path string) (pathRequest, error) {
	switch {
	case id == "":
		return pathRequest{}, invalidf("volume_id is missing")
	case path == "":
		return pathRequest{}, invalidf("volume_path is missing")
	}
	r, err := parsePathRequest(id, "volume_path", path)
	if err != nil {
		return pathRequest{}, refusef(codes.NotFound, "no such volume here: %w", err)
	}
	return r, nil
}

// maxPath is PATH_MAX without the final NUL.
const maxPath = 4095

func parsePath(field, path string) (string, error) {
	switch {
	case path == "":
		return "", invalidf("%s is missing", field)
	case len(path) > maxPath:
		return "", invalidf("%s has %d bytes, at most %d", field, len(path), maxPath)
	case strings.ContainsRune(path, 0):
		return "", invalidf("%s %q holds a NUL byte", field, path)
	case !filepath.IsAbs(path):
		return "", invalidf("%s %q is not absolute", field, path)
	case filepath.Clean(path) != path:
		return "", invalidf("%s %q is not canonical, which would be %q", field, path, filepath.Clean(path))
	case path == "/":
		return "", invalidf("%s is the root directory", field)
	}
	return path, nil
}

func parseUse(c *csi.VolumeCapability, publish map[string]string) (use, error) {
	access, err := request.ParseCapability(c)
	if err != nil {
		return use{}, invalidf("volume_capability: %w", err)
	}
	u := use{
		block:        access.Type == v1alpha1.AccessBlock,
		fsType:       filesystem.Type(access.Filesystem),
		mountFlags:   c.GetMount().GetMountFlags(),
		readOnly:     access.Mode == v1alpha1.ReadOnlyMany,
		singleWriter: c.GetAccessMode().GetMode() == csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
	}
	if u.block && u.readOnly {
		return use{}, invalidf("access mode %s with access type block: not supported", access.Mode)
	}
	if !u.block {
		// Checked again when the recorded filesystem turns out to be another.
		if _, err := filesystem.ParseMountOptions(u.typeOr(filesystem.Ext4), u.mountFlags); err != nil {
			return use{}, invalidf("mount_flags: %w", err)
		}
	}
	if g := c.GetMount().GetVolumeMountGroup(); g != "" {
		return use{}, invalidf("volume_mount_group %q: not supported (VOLUME_MOUNT_GROUP); kubelet applies fsGroup itself", g)
	}
	if len(publish) == 0 {
		return use{}, invalidf("publish_context is missing")
	}
	if u.publish, err = publishcontext.Decode(publish); err != nil {
		return use{}, invalidf("publish_context: %w", err)
	}
	return u, nil
}

func (u use) typeOr(fallback filesystem.Type) filesystem.Type {
	if u.fsType == "" {
		return fallback
	}
	return u.fsType
}
