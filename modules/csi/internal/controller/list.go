package controller

import (
	"context"
	"errors"
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
	listed, next, err := s.list(ctx, page, func(v1alpha1.Slice) (bool, error) { return true, nil })
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
func (s *Server) list(ctx context.Context, page request.Page, wanted func(v1alpha1.Slice) (bool, error)) (listed []v1alpha1.Slice, next string, err error) {
	all, err := s.all(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, p := range all {
		if !p.IsCarved() || position(p).Compare(page.After) <= 0 {
			continue
		}
		switch ok, err := wanted(p); {
		case err != nil:
			return nil, "", err
		case ok:
			listed = append(listed, p)
		}
	}
	slices.SortFunc(listed, func(a, b v1alpha1.Slice) int { return position(a).Compare(position(b)) })
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

// all lists the volumes of all kinds, in no order.
func (s *Server) all(ctx context.Context) ([]v1alpha1.Slice, error) {
	var partitions v1alpha1.NVMePartitionList
	var volumes v1alpha1.VolumeList
	if err := errors.Join(
		s.client.List(ctx, &partitions, client.InNamespace(s.namespace), client.UnsafeDisableDeepCopy),
		s.client.List(ctx, &volumes, client.UnsafeDisableDeepCopy),
	); err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	all := make([]v1alpha1.Slice, 0, len(partitions.Items)+len(volumes.Items))
	for i := range partitions.Items {
		all = append(all, &partitions.Items[i])
	}
	for i := range volumes.Items {
		if v := &volumes.Items[i]; v.Spec.Type == v1alpha1.VolumeBlock {
			all = append(all, v)
		}
	}
	return all, nil
}

func position(p v1alpha1.Slice) request.Position {
	return request.Position{Created: p.GetCreationTimestamp().Unix(), Name: p.GetName()}
}

// describe tells what a volume is and which nodes have, get or lose access.
func (s *Server) describe(ctx context.Context, p v1alpha1.Slice) (volume *csi.Volume, nodes []string, err error) {
	domain, err := s.inventory.Domain(ctx, p.GetTargetNode())
	if err != nil {
		return nil, nil, err
	}
	attached, err := s.cachedAttachments(ctx, string(p.GetUID()))
	if err != nil {
		return nil, nil, err
	}
	for _, a := range attached {
		nodes = append(nodes, a.Spec.NodeID)
	}
	return s.described(p, domain), nodes, nil
}

// described is a volume as the driver describes it to its callers.
func (s *Server) described(p v1alpha1.Slice, domain v1alpha1.DomainName) *csi.Volume {
	return &csi.Volume{
		VolumeId:           handleOf(p).String(),
		CapacityBytes:      p.GetActualSize(),
		AccessibleTopology: []*csi.Topology{{Segments: map[string]string{s.defaults.TopologyKey: string(domain)}}},
	}
}
