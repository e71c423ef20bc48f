package gather

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/explain"
)

// All is a snapshot of every claim of the driver in a namespace, or in all when
// it is empty, and then also of every volume that no claim stands for. It lists
// each kind once.
func (g *Gatherer) All(ctx context.Context, namespace string) ([]explain.Snapshot, error) {
	reader, err := preload(ctx, g.Reader,
		&corev1.PersistentVolumeList{}, &corev1.PodList{}, &corev1.NodeList{}, &corev1.EventList{},
		&storagev1.StorageClassList{}, &storagev1.VolumeAttachmentList{}, &coordinationv1.LeaseList{},
		&v1alpha1.NVMePartitionList{}, &v1alpha1.NVMeDeviceList{}, &v1alpha1.RDMAStorageNodeList{}, &v1alpha1.NVMeVolumeAttachmentList{},
	)
	if err != nil {
		return nil, err
	}
	inner := &Gatherer{Reader: reader, Namespace: g.Namespace, Now: g.Now}
	var claims corev1.PersistentVolumeClaimList
	if err := g.Reader.List(ctx, &claims, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list PersistentVolumeClaims: %w", err)
	}
	var all []explain.Snapshot
	claimed := map[client.ObjectKey]bool{}
	for i := range claims.Items {
		claim := &claims.Items[i]
		v := inner.start(explain.SubjectClaim, client.ObjectKeyFromObject(claim))
		v.s.Claim = claim
		v.readPods(ctx, client.ObjectKeyFromObject(claim))
		s, err := v.finish(ctx)
		switch {
		case errors.Is(err, ErrNotOurs), err == nil && !v.surelyOurs():
			continue
		case err != nil:
			return nil, err
		}
		claimed[v.partitionKey()] = true
		all = append(all, s)
	}
	if namespace != "" {
		return all, nil
	}
	claimless, err := inner.claimless(ctx, claimed)
	return append(all, claimless...), err
}

// surelyOurs tells whether something says that the claim is of the driver.
func (v *visit) surelyOurs() bool {
	claim := v.s.Claim
	return v.s.Volume != nil || v.s.Class != nil || v.s.Partition != nil ||
		claim.Annotations["volume.kubernetes.io/storage-provisioner"] == v1alpha1.DriverName
}

// claimless are the volumes whose claim is gone or never came.
func (g *Gatherer) claimless(ctx context.Context, claimed map[client.ObjectKey]bool) ([]explain.Snapshot, error) {
	var partitions v1alpha1.NVMePartitionList
	if err := g.Reader.List(ctx, &partitions); missing(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list NVMePartitions: %w", err)
	}
	var all []explain.Snapshot
	for i := range partitions.Items {
		p := &partitions.Items[i]
		if claimed[client.ObjectKeyFromObject(p)] {
			continue
		}
		v := g.start(explain.SubjectPartition, client.ObjectKeyFromObject(p))
		v.s.Partition = p
		v.s.Volume = read(ctx, v, explain.KindVolume, client.ObjectKey{Name: p.Name}, &corev1.PersistentVolume{})
		s, err := v.finish(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}
