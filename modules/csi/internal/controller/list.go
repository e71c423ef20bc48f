package controller

import (
	"context"
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

// maxPage bounds the entries of a page whose caller does not: at a few hundred
// bytes each they stay well below the 4 MiB of a gRPC message.
const maxPage = 4000

// ListVolumes lists the volumes that have been made, oldest first, with the
// nodes that they are published to.
func (s *Server) ListVolumes(ctx context.Context, r *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	page, err := request.ParsePage(r.GetMaxEntries(), r.GetStartingToken())
	if err != nil {
		return nil, toStatus(err)
	}
	listed, next, err := s.list(ctx, page, func(*v1alpha1.NVMePartition) (bool, error) { return true, nil })
	if err != nil {
		return nil, toStatus(err)
	}
	response := &csi.ListVolumesResponse{NextToken: next}
	for _, p := range listed {
		volume, nodes, err := s.describe(ctx, p)
		if err != nil {
			return nil, toStatus(err)
		}
		response.Entries = append(response.Entries, &csi.ListVolumesResponse_Entry{
			Volume: volume, Status: &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: nodes},
		})
	}
	return response, nil
}

// ControllerGetVolume describes one volume as ListVolumes does.
func (s *Server) ControllerGetVolume(ctx context.Context, r *csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
	p, err := s.volumeOf(ctx, r.GetVolumeId())
	if err != nil {
		return nil, toStatus(err)
	}
	volume, nodes, err := s.describe(ctx, p)
	if err != nil {
		return nil, toStatus(err)
	}
	return &csi.ControllerGetVolumeResponse{
		Volume: volume, Status: &csi.ControllerGetVolumeResponse_VolumeStatus{PublishedNodeIds: nodes},
	}, nil
}

// list cuts a page out of the volumes that are wanted and have been made; one
// that is still being made was never told to anybody. The objects are the
// cache's own and must not be changed.
func (s *Server) list(ctx context.Context, page request.Page, wanted func(*v1alpha1.NVMePartition) (bool, error)) (listed []*v1alpha1.NVMePartition, next string, err error) {
	var all v1alpha1.NVMePartitionList
	if err := s.client.List(ctx, &all, client.InNamespace(s.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, "", fmt.Errorf("list NVMePartitions: %w", err)
	}
	for i := range all.Items {
		p := &all.Items[i]
		if !carved(p) || position(p).Compare(page.After) <= 0 {
			continue
		}
		switch ok, err := wanted(p); {
		case err != nil:
			return nil, "", err
		case ok:
			listed = append(listed, p)
		}
	}
	slices.SortFunc(listed, func(a, b *v1alpha1.NVMePartition) int { return position(a).Compare(position(b)) })
	most := maxPage
	if page.Max > 0 {
		most = min(most, page.Max)
	}
	if len(listed) > most {
		listed = listed[:most]
		next = position(listed[most-1]).String()
	}
	return listed, next, nil
}

func position(p *v1alpha1.NVMePartition) request.Position {
	return request.Position{Created: p.CreationTimestamp.Unix(), Name: p.Name}
}

// describe tells what a volume is and which nodes have, get or lose access.
func (s *Server) describe(ctx context.Context, p *v1alpha1.NVMePartition) (volume *csi.Volume, nodes []string, err error) {
	domain, err := s.inventory.Domain(ctx, p.Spec.NodeName)
	if err != nil {
		return nil, nil, err
	}
	attached, err := s.cachedAttachments(ctx, string(p.UID))
	if err != nil {
		return nil, nil, err
	}
	for _, a := range attached {
		nodes = append(nodes, a.Spec.NodeID)
	}
	return s.volume(p, domain), nodes, nil
}

// volume is a volume as the driver describes it to its callers.
func (s *Server) volume(p *v1alpha1.NVMePartition, domain v1alpha1.DomainName) *csi.Volume {
	return &csi.Volume{
		VolumeId:           s.handleOf(p).String(),
		CapacityBytes:      p.Status.AllocatedCapacity,
		AccessibleTopology: []*csi.Topology{{Segments: map[string]string{s.defaults.TopologyKey: string(domain)}}},
	}
}
