package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// unclaimedAfter is how long a volume may be without a PersistentVolume before it
// counts: external-provisioner makes one as soon as CreateVolume answers, and asks
// again while that fails.
const unclaimedAfter = 15 * time.Minute

var unclaimed = prometheus.NewDesc("distort_manager_volumes_without_persistent_volume",
	"Volumes that take space, that nobody deletes and that no PersistentVolume speaks of for a quarter of an hour.", nil, nil)

// KeepHandle leaves of a PersistentVolume in a cache what is needed to know which
// volume it speaks of.
func KeepHandle(o any) (any, error) {
	v, ok := o.(*corev1.PersistentVolume)
	if !ok {
		return o, nil
	}
	kept := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: v.Name, UID: v.UID, ResourceVersion: v.ResourceVersion}}
	if csi := v.Spec.CSI; csi != nil && csi.Driver == v1alpha1.DriverName {
		kept.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: csi.Driver, VolumeHandle: csi.VolumeHandle}
	}
	return kept, nil
}

// countUnclaimed counts the volumes whose claim went away while they were made, or
// whose provisioner ended before it made the PersistentVolume (known faults CV1, CV2).
func countUnclaimed(ctx context.Context, cache client.Reader, now time.Time) (int, error) {
	var persistent corev1.PersistentVolumeList
	var partitions v1alpha1.NVMePartitionList
	var volumes v1alpha1.VolumeList
	for _, list := range []client.ObjectList{&persistent, &partitions, &volumes} {
		if err := cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return 0, err
		}
	}
	claimed := map[types.UID]bool{}
	for i := range persistent.Items {
		csi := persistent.Items[i].Spec.CSI
		if csi == nil || csi.Driver != v1alpha1.DriverName {
			continue
		}
		if h, err := handle.Parse(csi.VolumeHandle); err == nil {
			claimed[types.UID(h.UID)] = true
		}
	}
	count := 0
	look := func(s v1alpha1.Slice) {
		if !claimed[s.GetUID()] && s.GetDeletionTimestamp() == nil && now.Sub(s.GetCreationTimestamp().Time) >= unclaimedAfter {
			count++
		}
	}
	for i := range partitions.Items {
		look(&partitions.Items[i])
	}
	for i := range volumes.Items {
		if volumes.Items[i].Spec.Provenance != v1alpha1.ProvenanceImported {
			look(&volumes.Items[i])
		}
	}
	return count, nil
}
