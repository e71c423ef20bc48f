package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// indexVolumeUID finds the attachments of a volume in the cache.
const indexVolumeUID = "spec.volumeRef.uid"

// registerReads starts the informers behind the reads of this file.
func registerReads(ctx context.Context, c cache.Cache) error {
	if err := c.IndexField(ctx, newAttachment(), indexVolumeUID, func(o client.Object) []string {
		a, ok := o.(*v1alpha1.NVMeVolumeAttachment)
		if !ok {
			return nil
		}
		return []string{string(a.Spec.VolumeRef.UID)}
	}); err != nil {
		return fmt.Errorf("index attachments by volume: %w", err)
	}
	for _, o := range []client.Object{&v1alpha1.StorageNode{}, &storagev1.CSINode{}} {
		if _, err := c.GetInformer(ctx, o); err != nil {
			return fmt.Errorf("informer for %T: %w", o, err)
		}
	}
	return nil
}

// partition finds the object of a handle, and tells whether the cache has it;
// nil when the API server says that this object, in this life, is no more
// (known fault SE8).
func (s *Server) partition(ctx context.Context, h handle.Handle) (p *v1alpha1.NVMePartition, cached bool, err error) {
	key := s.key(h.Name)
	for _, source := range []struct {
		reader client.Reader
		cached bool
	}{{s.client, true}, {s.live, false}} {
		p := newPartition()
		err := source.reader.Get(ctx, key, p)
		if err == nil && p.UID == types.UID(h.UID) {
			return p, source.cached, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, false, fmt.Errorf("read NVMePartition %s: %w", key, err)
		}
	}
	return nil, false, nil
}

// existingPartition is for calls that need the volume.
func (s *Server) existingPartition(ctx context.Context, h handle.Handle) (*v1alpha1.NVMePartition, error) {
	p, _, err := s.partition(ctx, h)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, refusef(errNotFound, "volume %s does not exist", h)
	}
	return p, nil
}

// knownNode refuses a node on which this driver does not run. kubelet writes
// the CSINode when it has registered the driver.
func (s *Server) knownNode(ctx context.Context, nodeID string) error {
	var n storagev1.CSINode
	err := s.client.Get(ctx, types.NamespacedName{Name: nodeID}, &n)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read CSINode %s: %w", nodeID, err)
	}
	runs := slices.ContainsFunc(n.Spec.Drivers, func(d storagev1.CSINodeDriver) bool {
		return d.Name == v1alpha1.DriverName && d.NodeID == nodeID
	})
	if err != nil || !runs {
		return refusef(errNotFound, "node %s: no CSINode says that driver %s runs there", nodeID, v1alpha1.DriverName)
	}
	return nil
}

// domain is the network domain from which a storage node is reached.
func (s *Server) domain(ctx context.Context, storageNode string) (string, error) {
	var n v1alpha1.StorageNode
	err := s.client.Get(ctx, types.NamespacedName{Name: storageNode}, &n)
	if apierrors.IsNotFound(err) {
		return s.defaultDomain, nil
	}
	if err != nil {
		return "", fmt.Errorf("read StorageNode %s: %w", storageNode, err)
	}
	return string(n.Spec.NetworkDomain), nil
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
