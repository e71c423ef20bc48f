package node

import (
	"context"

	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/staging"
)

// target is what a stage connected, or connects, to.
func (s *Server) target(r staging.Record) initiator.Target {
	return initiator.Target{NQN: r.Identity.NQN, HostNQN: s.hostNQN, HostID: s.hostID, Portals: r.Portals, Params: r.Params}
}

// maintain has paths of a staged volume made that were not, or that the kernel
// has given up, and parameters restored that a shutdown which was called off has
// changed. It waits for none of it. Its caller has the volume.
func (s *Server) maintain(ctx context.Context, r staging.Record) {
	if r.State != staging.Staged || len(r.Portals) == 0 {
		return
	}
	if err := s.initiator.Maintain(ctx, s.target(r)); err != nil {
		s.log.Error(err, "a connection is not as it should be", "volume", r.VolumeHandle)
	}
}

// maintainIfIdle is maintain for callers that have not taken the volume: during
// another operation nothing is connected behind its back.
func (s *Server) maintainIfIdle(ctx context.Context, id string) {
	release, ok := s.busy.TryAcquire(id)
	if !ok {
		return
	}
	defer release()
	// Read under the guard: an unstage may have removed it in between.
	if r, found, err := s.records.Load(id); err == nil && found {
		s.maintain(ctx, r)
	}
}

// Resume looks after the volumes that an earlier process staged.
func (s *Server) Resume(ctx context.Context) {
	records, err := s.records.List()
	if err != nil {
		s.log.Error(err, "some staging records cannot be read")
	}
	for _, r := range records {
		s.maintainIfIdle(ctx, r.VolumeHandle)
	}
}

// FailFast prepares for the end of this node: from now on no connection of it
// waits longer than seconds for a target that is lost (ST19). What is live stays
// live, and nothing is unmounted.
func (s *Server) FailFast(ctx context.Context) {
	connections, err := s.initiator.FailFast(ctx, s.hostNQN)
	if err != nil {
		s.log.Error(err, "some connections may hold up the shutdown")
	}
	s.log.Info("connections give up soon", "connections", connections)
}
