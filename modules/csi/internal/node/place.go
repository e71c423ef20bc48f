package node

import (
	"errors"
	"slices"

	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/staging"
)

// identityOf is what the volume's device must be. All of it follows from the
// handle, so that no record is needed to find it.
func identityOf(v volume) initiator.Identity {
	return initiator.Identity{NQN: volumeNQN(v), NSID: identity.NSID, UUID: identity.NamespaceUUID(v.handle.UID)}
}

// place is where a volume is in use on this node.
type place struct {
	// block: the device, not a filesystem.
	block bool
	// mount is what is mounted there; zero at the staging path of a raw block
	// volume, where nothing is.
	mount filesystem.Mount
}

// locate finds out what of the volume is at the path.
func (s *Server) locate(r pathRequest) (place, error) {
	mounted, err := s.filesystems.MountsAt(r.path)
	if err != nil {
		return place{}, err
	}
	if len(mounted) == 0 {
		record, found, err := s.records.Load(r.id)
		if err != nil && !errors.Is(err, staging.ErrCorrupt) {
			return place{}, err
		}
		if found && record.Block && record.StagingPath == r.path {
			return place{block: true}, nil
		}
		return place{}, refusef(codes.NotFound, "volume %s is not at %s", r.id, r.path)
	}
	m := mounted[len(mounted)-1]
	if m.DeviceNode() != "" {
		return place{block: true, mount: m}, nil
	}
	if err := s.checkOwner(r, m.Number, volumeNQN(r.volume)); err != nil {
		return place{}, refusef(codes.NotFound, "volume %s is not at %s: %w", r.id, r.path, err)
	}
	return place{mount: m}, nil
}

// checkShows refuses a place that shows another device than the volume's
// present one: of another volume, or one that is gone.
func (s *Server) checkShows(r pathRequest, p place, d initiator.Device) error {
	if p.mount.Path == "" {
		return nil
	}
	shows, err := s.shows(r.volume, p.mount, d)
	if err != nil {
		return err
	}
	if !shows {
		return refusef(codes.FailedPrecondition, "%s shows a device that volume %s does not have, whose is %s %s: %s", r.path, r.id, d.Name, d.Number, p.mount)
	}
	return nil
}

// shows tells whether a mount is of the volume's present device, as filesystem
// or as device node.
func (s *Server) shows(v volume, m filesystem.Mount, d initiator.Device) (bool, error) {
	if m.DeviceNode() == "" {
		return d.Is(m.Number), nil
	}
	blocks, err := s.initiator.Blocks(volumeNQN(v))
	return slices.ContainsFunc(blocks, func(b initiator.Block) bool { return b.Name == m.DeviceNode() && d.Is(b.Number) }), err
}

// writable is a mount through which the filesystem on the device can be
// changed; false when it is mounted read-only, or not at all.
func (s *Server) writable(d initiator.Device) (filesystem.Mount, bool, error) {
	mounts, err := s.filesystems.Mounts()
	if err != nil {
		return filesystem.Mount{}, false, err
	}
	for _, m := range mounts {
		if d.Is(m.Number) && m.Root == "/" && !m.ReadOnly() {
			return m, true, nil
		}
	}
	return filesystem.Mount{}, false, nil
}
