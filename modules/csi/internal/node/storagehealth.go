package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/distort-io/distort/modules/csi/internal/metrics"
)

// PathStates counts this node's connections, of all volumes together.
func (s *Server) PathStates() (map[metrics.Path]int, error) {
	paths, err := s.initiator.Paths(s.hostNQN)
	if err != nil {
		return nil, err
	}
	count := map[metrics.Path]int{}
	for _, p := range paths {
		count[metrics.Path{Transport: string(p.Portal.Transport), State: p.State}]++
	}
	return count, nil
}

// NodeGetStorageHealth tells what is wrong with this node's connections to
// storage, of all volumes together.
func (s *Server) NodeGetStorageHealth(context.Context, *csi.NodeGetStorageHealthRequest) (*csi.NodeGetStorageHealthResponse, error) {
	paths, err := s.initiator.Paths(s.hostNQN)
	if err != nil {
		return nil, toStatus(err)
	}
	down := map[string]int{} // connections by portal
	var portals []string
	live := 0
	for _, p := range paths {
		if p.Live() {
			live++
			continue
		}
		portal := p.Portal.String()
		if down[portal]++; down[portal] == 1 {
			portals = append(portals, portal)
		}
	}
	if len(portals) == 0 {
		return &csi.NodeGetStorageHealthResponse{}, nil
	}
	health := &csi.NodeGetStorageHealthResponse_StorageBackendHealth{Status: csi.StorageHealthErrorType_STORAGE_DEGRADED, Reason: "PathsDown"}
	if live == 0 {
		health.Status, health.Reason = csi.StorageHealthErrorType_STORAGE_UNREACHABLE, "NoLivePath"
	}
	var texts []string
	for _, portal := range portals {
		texts = append(texts, fmt.Sprintf("%s (%d)", portal, down[portal]))
	}
	health.Message = fmt.Sprintf("%d of %d connections are down: %s", len(paths)-live, len(paths), strings.Join(texts, ", "))
	return &csi.NodeGetStorageHealthResponse{BackendHealth: []*csi.NodeGetStorageHealthResponse_StorageBackendHealth{health}}, nil
}
