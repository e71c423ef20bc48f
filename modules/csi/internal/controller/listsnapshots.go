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

// ListSnapshots lists the snapshots that have been taken, oldest first.
func (s *Server) ListSnapshots(ctx context.Context, r *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	want, err := request.ParseListSnapshots(r, s.namespace)
	if err != nil {
		return nil, toStatus(err)
	}
	var all v1alpha1.SnapshotList
	if err := s.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, toStatus(fmt.Errorf("list Snapshots: %w", err))
	}
	at := func(o *v1alpha1.Snapshot) request.Position {
		return request.Position{Created: o.CreationTimestamp.Unix(), Name: o.Name}
	}
	var listed []*v1alpha1.Snapshot
	for i := range all.Items {
		o := &all.Items[i]
		switch {
		case want.Nothing, o.Status.BackendGUID == "", at(o).Compare(want.Page.After) <= 0:
		case want.Snapshot != nil && want.Snapshot.UID != string(o.UID):
		case want.Source != nil && want.Source.UID != string(o.Spec.Source.UID):
		default:
			listed = append(listed, o)
		}
	}
	slices.SortFunc(listed, func(a, b *v1alpha1.Snapshot) int { return at(a).Compare(at(b)) })
	most := maxPage
	if want.Page.Max > 0 {
		most = min(most, want.Page.Max)
	}
	response := &csi.ListSnapshotsResponse{}
	if len(listed) > most {
		listed = listed[:most]
		response.NextToken = at(listed[most-1]).String()
	}
	for _, o := range listed {
		response.Entries = append(response.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: describeSnapshot(o)})
	}
	return response, nil
}

// GetSnapshot describes one snapshot as ListSnapshots does.
func (s *Server) GetSnapshot(ctx context.Context, r *csi.GetSnapshotRequest) (*csi.GetSnapshotResponse, error) {
	h, err := request.ParseSnapshotID(r.GetSnapshotId())
	if err != nil && !errors.Is(err, request.ErrNoSnapshot) {
		return nil, toStatus(err)
	}
	if err != nil {
		return nil, toStatus(refusef(errNotFound, "%v", err))
	}
	o, err := s.existingSnapshot(ctx, h)
	if err != nil {
		return nil, toStatus(err)
	}
	return &csi.GetSnapshotResponse{Snapshot: describeSnapshot(o)}, nil
}
