package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/index"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

// indexVolumeUID and indexNodeID find the attachments of a volume and of a node
// in the cache.
const (
	indexVolumeUID = "spec.volumeRef.uid"
	indexNodeID    = "spec.nodeID"
)

// registerReads starts the informers behind the reads of this file.
func registerReads(ctx context.Context, c cache.Cache) error {
	if err := errors.Join(
		index.Add(ctx, c, newAttachment(), indexVolumeUID, func(a *v1alpha1.NVMeVolumeAttachment) string { return string(a.Spec.VolumeRef.UID) }),
		index.Add(ctx, c, newAttachment(), indexNodeID, func(a *v1alpha1.NVMeVolumeAttachment) string { return a.Spec.NodeID }),
	); err != nil {
		return err
	}
	if _, err := c.GetInformer(ctx, &storagev1.CSINode{}); err != nil {
		return fmt.Errorf("informer for CSINodes: %w", err)
	}
	return nil
}

// volumeNow finds the object of a handle, and tells whether the cache has it;
// nil when the API server says that this object, in this life, is no more
// (known fault SE8).
func (s *Server) volumeNow(ctx context.Context, h handle.Handle) (p v1alpha1.Slice, cached bool, err error) {
	f := s.familyOf(h)
	key := f.key(h.Name)
	for _, source := range []struct {
		reader client.Reader
		cached bool
	}{{s.client, true}, {s.live, false}} {
		p := f.empty()
		err := source.reader.Get(ctx, key, p)
		if err == nil && p.GetUID() == types.UID(h.UID) {
			return p, source.cached, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, false, fmt.Errorf("read %s %s: %w", f.kind, name(key), err)
		}
	}
	return nil, false, nil
}

// volumeOf finds the volume that an ID names, for calls that only read it.
func (s *Server) volumeOf(ctx context.Context, id string) (v1alpha1.Slice, error) {
	h, err := request.ParseVolumeID(id, s.namespace)
	if err != nil {
		return nil, err
	}
	return s.existingVolume(ctx, h)
}

// existingVolume is for calls that need the volume.
func (s *Server) existingVolume(ctx context.Context, h handle.Handle) (v1alpha1.Slice, error) {
	p, _, err := s.volumeNow(ctx, h)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, refusef(errNotFound, "volume %s does not exist", h)
	}
	return p, nil
}

// knownNode returns what kubelet wrote into the CSINode when it registered this
// driver, and refuses a node on which the driver does not run.
func (s *Server) knownNode(ctx context.Context, nodeID string) (*storagev1.CSINodeDriver, error) {
	var n storagev1.CSINode
	err := s.client.Get(ctx, types.NamespacedName{Name: nodeID}, &n)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read CSINode %s: %w", nodeID, err)
	}
	i := slices.IndexFunc(n.Spec.Drivers, func(d storagev1.CSINodeDriver) bool {
		return d.Name == v1alpha1.DriverName && d.NodeID == nodeID
	})
	if err != nil || i < 0 {
		return nil, refusef(errNotFound, "node %s: no CSINode says that driver %s runs there", nodeID, v1alpha1.DriverName)
	}
	return &n.Spec.Drivers[i], nil
}

// hasSlot refuses one more volume on a node that has as many as it takes
// (NodeGetInfo, max_volumes_per_node). The scheduler keeps count too; it does
// not for a pod that names its node (known fault PL5).
func (s *Server) hasSlot(ctx context.Context, node *storagev1.CSINodeDriver) error {
	if node.Allocatable == nil || node.Allocatable.Count == nil {
		return nil
	}
	var list v1alpha1.NVMeVolumeAttachmentList
	if err := s.client.List(ctx, &list, client.InNamespace(s.namespace), client.MatchingFields{indexNodeID: node.NodeID}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list attachments of node %s: %w", node.NodeID, err)
	}
	if most := int(*node.Allocatable.Count); len(list.Items) >= most {
		return refusef(errNoCapacity, "node %s has %d volumes of at most %d (CSINode)", node.NodeID, len(list.Items), most)
	}
	return nil
}

// cachedAttachments lists a volume's attachments by name.
func (s *Server) cachedAttachments(ctx context.Context, volumeUID string) ([]v1alpha1.NVMeVolumeAttachment, error) {
	var list v1alpha1.NVMeVolumeAttachmentList
	if err := s.client.List(ctx, &list, client.InNamespace(s.namespace), client.MatchingFields{indexVolumeUID: volumeUID}); err != nil {
		return nil, fmt.Errorf("list attachments of volume %s: %w", volumeUID, err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.NVMeVolumeAttachment) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}
