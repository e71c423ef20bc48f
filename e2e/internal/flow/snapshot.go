package flow

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// snapshotTimeout bounds the work of three controllers for one VolumeSnapshot.
const snapshotTimeout = 4 * time.Minute

// snapshotGroup is the API group of VolumeSnapshots.
var snapshotGroup = schema.GroupVersion{Group: "snapshot.storage.k8s.io", Version: "v1"}

// FromSnapshot has a claim's volume made of a VolumeSnapshot.
func FromSnapshot(name string) *corev1.TypedLocalObjectReference {
	return &corev1.TypedLocalObjectReference{APIGroup: &snapshotGroup.Group, Kind: "VolumeSnapshot", Name: name}
}

// FromClaim has a claim's volume made of another claim's.
func FromClaim(name string) *corev1.TypedLocalObjectReference {
	return &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: name}
}

func snapshotObject(kind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(snapshotGroup.WithKind(kind))
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// TakeSnapshot makes a VolumeSnapshot of a claim and waits until a volume can be made
// of it. It returns the Snapshot behind it.
func (f *Flow) TakeSnapshot(ctx context.Context, name, class, claim string) (*v1alpha1.Snapshot, error) {
	object := snapshotObject("VolumeSnapshot", f.Namespace, name)
	object.Object["spec"] = map[string]any{
		"volumeSnapshotClassName": class, "source": map[string]any{"persistentVolumeClaimName": claim},
	}
	if err := f.client.Create(ctx, object); err != nil {
		return nil, fmt.Errorf("make VolumeSnapshot %s: %w", name, err)
	}
	err := Eventually(ctx, "VolumeSnapshot "+name+" is ready to use", snapshotTimeout, func(ctx context.Context) (string, error) {
		if err := f.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return "", err
		}
		if ready, _, err := unstructured.NestedBool(object.Object, "status", "readyToUse"); err != nil || ready {
			return "", err
		}
		return fmt.Sprintf("its status is %v", object.Object["status"]), nil
	})
	if err != nil {
		return nil, err
	}
	snapshot := &v1alpha1.Snapshot{}
	if err := f.client.Get(ctx, client.ObjectKey{Name: snapshotName(object)}, snapshot); err != nil {
		return nil, fmt.Errorf("snapshot of VolumeSnapshot %s: %w", name, err)
	}
	return snapshot, nil
}

// DeleteSnapshot deletes a VolumeSnapshot and waits until it, its content and the
// Snapshot behind it are gone.
func (f *Flow) DeleteSnapshot(ctx context.Context, name string) error {
	object := snapshotObject("VolumeSnapshot", f.Namespace, name)
	if err := f.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return fmt.Errorf("delete VolumeSnapshot %s: %w", name, err)
	}
	content := snapshotObject("VolumeSnapshotContent", "", "snapcontent-"+string(object.GetUID()))
	snapshot := &v1alpha1.Snapshot{ObjectMeta: metav1.ObjectMeta{Name: snapshotName(object)}}
	if err := f.deleteAndWait(ctx, object, snapshotTimeout); err != nil {
		return err
	}
	for _, behind := range []client.Object{content, snapshot} {
		if err := f.waitGone(ctx, behind, snapshotTimeout); err != nil {
			return err
		}
	}
	return nil
}

// snapshotName is the name of the Snapshot of a VolumeSnapshot: the sidecar names
// snapshots after its UID.
func snapshotName(object *unstructured.Unstructured) string {
	return identity.VolumeName("snapshot-" + string(object.GetUID()))
}
