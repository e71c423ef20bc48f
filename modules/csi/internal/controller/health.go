package controller

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

// ControllerGetVolumeHealth tells what is wrong with a volume, as its storage
// node sees it.
func (s *Server) ControllerGetVolumeHealth(ctx context.Context, r *csi.ControllerGetVolumeHealthRequest) (*csi.ControllerGetVolumeHealthResponse, error) {
	p, err := s.volumeOf(ctx, r.GetVolumeId())
	if err != nil {
		return nil, toStatus(err)
	}
	health, err := s.health(ctx, p)
	if err != nil {
		return nil, toStatus(err)
	}
	return &csi.ControllerGetVolumeHealthResponse{VolumeHealth: health}, nil
}

// ControllerListVolumeHealth lists the volumes with which something is wrong,
// oldest first.
func (s *Server) ControllerListVolumeHealth(ctx context.Context, r *csi.ControllerListVolumeHealthRequest) (*csi.ControllerListVolumeHealthResponse, error) {
	page, err := request.ParsePage(r.GetMaxEntries(), r.GetStartingToken())
	if err != nil {
		return nil, toStatus(err)
	}
	sick := map[string]*csi.VolumeHealth{}
	listed, next, err := s.list(ctx, page, func(p v1alpha1.Slice) (bool, error) {
		health, err := s.health(ctx, p)
		sick[p.GetName()] = health
		return len(health.GetHealthStatuses()) > 0, err
	})
	if err != nil {
		return nil, toStatus(err)
	}
	response := &csi.ControllerListVolumeHealthResponse{NextToken: next}
	for _, p := range listed {
		response.Entries = append(response.Entries, sick[p.GetName()])
	}
	return response, nil
}

func (s *Server) health(ctx context.Context, p v1alpha1.Slice) (*csi.VolumeHealth, error) {
	node, err := s.inventory.Node(ctx, p.GetTargetNode())
	if err != nil {
		return nil, err
	}
	return &csi.VolumeHealth{VolumeId: handleOf(p).String(), HealthStatuses: ailments(p, node)}, nil
}

// ailments lists what is wrong with a volume that was once exported; node is
// nil when nobody reports it any more.
func ailments(p v1alpha1.Slice, node *v1alpha1.RDMAStorageNode) []*csi.VolumeHealth_VolumeHealthEntry {
	if p.GetDeletionTimestamp() != nil || !p.IsCarved() {
		return nil
	}
	var found []*csi.VolumeHealth_VolumeHealthEntry
	add := func(status csi.VolumeHealthErrorType, reason, message string) {
		if !slices.ContainsFunc(found, func(e *csi.VolumeHealth_VolumeHealthEntry) bool { return e.Status == status && e.Reason == reason }) {
			found = append(found, &csi.VolumeHealth_VolumeHealthEntry{Status: status, Reason: reason, Message: message})
		}
	}
	for _, kind := range []string{v1alpha1.ConditionProvisioned, v1alpha1.ConditionClaimAuthorized, v1alpha1.ConditionExported} {
		c := meta.FindStatusCondition(p.GetConditions(), kind)
		switch {
		case c == nil || c.Status == metav1.ConditionTrue:
		case c.Reason == v1alpha1.ReasonDataLoss:
			add(csi.VolumeHealthErrorType_DATA_LOSS, c.Reason, describe(c))
		default:
			add(csi.VolumeHealthErrorType_INACCESSIBLE, c.Reason, describe(c))
		}
	}
	// I/O survives the loss of the agent, so this alone says only that nobody
	// watches over the volume.
	switch ready := nodeReady(node); {
	case ready == nil:
		add(csi.VolumeHealthErrorType_DEGRADED, "StorageNodeUnknown", "storage node "+p.GetTargetNode()+" is not reported")
	case ready.Status != metav1.ConditionTrue:
		add(csi.VolumeHealthErrorType_DEGRADED, ready.Reason, "storage node "+p.GetTargetNode()+": "+describe(ready))
	}
	return found
}

func nodeReady(node *v1alpha1.RDMAStorageNode) *metav1.Condition {
	if node == nil {
		return nil
	}
	return meta.FindStatusCondition(node.Status.Conditions, v1alpha1.ConditionReady)
}
