package flow

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const (
	provisionTimeout = 4 * time.Minute
	deleteTimeout    = 2 * time.Minute
	growTimeout      = 3 * time.Minute
)

// Class describes a StorageClass of the driver.
type Class struct {
	Name         string
	Parameters   map[string]string
	MountOptions []string
}

// CreateClass makes a StorageClass that provisions at once, so that the time of
// provisioning can be seen by itself.
func (f *Flow) CreateClass(ctx context.Context, class Class) error {
	mode, reclaim, grow := storagev1.VolumeBindingImmediate, corev1.PersistentVolumeReclaimDelete, true
	object := &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: class.Name},
		Provisioner:       v1alpha1.DriverName,
		Parameters:        class.Parameters,
		MountOptions:      class.MountOptions,
		VolumeBindingMode: &mode,
		ReclaimPolicy:     &reclaim,

		AllowVolumeExpansion: &grow,
	}
	if err := f.client.Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("make StorageClass %s: %w", class.Name, err)
	}
	return nil
}

// DeleteClass removes a StorageClass.
func (f *Flow) DeleteClass(ctx context.Context, name string) error {
	object := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := f.client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete StorageClass %s: %w", name, err)
	}
	return nil
}

// Claim describes a PersistentVolumeClaim.
type Claim struct {
	Name, Class string
	// Size is a quantity, such as "1Gi".
	Size string
	// Block asks for a raw device.
	Block bool
	// AccessMode is ReadWriteOnce when empty.
	AccessMode corev1.PersistentVolumeAccessMode
	// From is what its volume is made of: see FromSnapshot and FromClaim.
	From *corev1.TypedLocalObjectReference
}

// CreateClaim makes a PersistentVolumeClaim.
func (f *Flow) CreateClaim(ctx context.Context, claim Claim) error {
	size, err := resource.ParseQuantity(claim.Size)
	if err != nil {
		return fmt.Errorf("make PersistentVolumeClaim %s: size %q: %w", claim.Name, claim.Size, err)
	}
	mode := corev1.PersistentVolumeFilesystem
	if claim.Block {
		mode = corev1.PersistentVolumeBlock
	}
	access := cmp.Or(claim.AccessMode, corev1.ReadWriteOnce)
	object := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claim.Name, Namespace: f.Namespace},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{access},
			VolumeMode:       &mode,
			StorageClassName: &claim.Class,
			DataSource:       claim.From,
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}
	if err := f.client.Create(ctx, object); err != nil {
		return fmt.Errorf("make PersistentVolumeClaim %s: %w", claim.Name, err)
	}
	return nil
}

// Bound is what a claim got.
type Bound struct {
	// Volume is the name of the PersistentVolume, Handle the driver's name of it.
	Volume, Handle string
	// Partition is the slice behind it.
	Partition *v1alpha1.NVMePartition
	// Exported and Bound are how long after since the slice was exported and the
	// claim bound.
	Exported, Bound time.Duration
}

// WaitBound waits until the claim is bound, and notes on the way when its slice
// was exported. The provisioner names volumes and slices after the claim's UID.
func (f *Flow) WaitBound(ctx context.Context, name string, since time.Time) (Bound, error) {
	var bound Bound
	err := Eventually(ctx, "PersistentVolumeClaim "+name+" becomes Bound", provisionTimeout, func(ctx context.Context) (string, error) {
		claim := &corev1.PersistentVolumeClaim{}
		if err := f.client.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: name}, claim); err != nil {
			return "", err
		}
		partition, err := f.PartitionOf(ctx, claim)
		if err != nil {
			return "", err
		}
		state := "no NVMePartition yet"
		if partition != nil {
			state = "NVMePartition " + partition.Name + ": " + Conditions(partition.Status.Conditions)
			if bound.Exported == 0 && meta.IsStatusConditionTrue(partition.Status.Conditions, v1alpha1.ConditionExported) {
				bound.Exported, bound.Partition = time.Since(since), partition
			}
		}
		if claim.Status.Phase == corev1.ClaimBound && bound.Partition != nil {
			bound.Volume, bound.Bound = claim.Spec.VolumeName, time.Since(since)
			volume := &corev1.PersistentVolume{}
			if err := f.client.Get(ctx, client.ObjectKey{Name: bound.Volume}, volume); err != nil {
				return "", err
			}
			if volume.Spec.CSI == nil {
				return "", fmt.Errorf("PersistentVolume %s is of no CSI driver", bound.Volume)
			}
			bound.Handle = volume.Spec.CSI.VolumeHandle
			return "", nil
		}
		return "claim is " + string(claim.Status.Phase) + ", " + state, nil
	})
	return bound, err
}

// RequestSize asks for a larger volume, without waiting.
func (f *Flow) RequestSize(ctx context.Context, name, size string) error {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
	patch := fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":%q}}}}`, size)
	if err := f.client.Patch(ctx, claim, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("grow PersistentVolumeClaim %s: %w", name, err)
	}
	return nil
}

// GrowClaim asks for a larger volume and waits until the claim has it.
func (f *Flow) GrowClaim(ctx context.Context, name, size string) error {
	want, err := resource.ParseQuantity(size)
	if err != nil {
		return fmt.Errorf("grow PersistentVolumeClaim %s: size %q: %w", name, size, err)
	}
	if err := f.RequestSize(ctx, name, size); err != nil {
		return err
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
	return Eventually(ctx, "PersistentVolumeClaim "+name+" has "+size, growTimeout, func(ctx context.Context) (string, error) {
		if err := f.client.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return "", err
		}
		if have := claim.Status.Capacity[corev1.ResourceStorage]; have.Cmp(want) < 0 {
			return fmt.Sprintf("it has %s, conditions %v", have.String(), claim.Status.Conditions), nil
		}
		return "", nil
	})
}

// sliceName is the name of the slice of a claim: the provisioner names volumes
// after the claim's UID.
func sliceName(claim *corev1.PersistentVolumeClaim) string {
	return identity.VolumeName("pvc-" + string(claim.UID))
}

// PartitionOf returns the slice of a claim, nil if there is none.
func (f *Flow) PartitionOf(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*v1alpha1.NVMePartition, error) {
	partition := &v1alpha1.NVMePartition{}
	err := f.client.Get(ctx, client.ObjectKey{Namespace: v1alpha1.DefaultNamespace, Name: sliceName(claim)}, partition)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return partition, nil
}

// WaitDetached waits until no node has the volume of a claim any more. A pod is
// gone before its volume is unmounted from the node.
func (f *Flow) WaitDetached(ctx context.Context, name string) error {
	claim := &corev1.PersistentVolumeClaim{}
	if err := f.client.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: name}, claim); err != nil {
		return fmt.Errorf("detachment of PersistentVolumeClaim %s: %w", name, err)
	}
	return Eventually(ctx, "volume "+claim.Spec.VolumeName+" is detached", goneTimeout, func(ctx context.Context) (string, error) {
		list := &storagev1.VolumeAttachmentList{}
		if err := f.client.List(ctx, list); err != nil {
			return "", err
		}
		for _, attachment := range list.Items {
			if of := attachment.Spec.Source.PersistentVolumeName; of != nil && *of == claim.Spec.VolumeName {
				return "attached to " + attachment.Spec.NodeName, nil
			}
		}
		return "", nil
	})
}

// Partition returns the slice of a claim.
func (f *Flow) Partition(ctx context.Context, name string) (*v1alpha1.NVMePartition, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := f.client.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: name}, claim); err != nil {
		return nil, err
	}
	partition, err := f.PartitionOf(ctx, claim)
	if err == nil && partition == nil {
		err = fmt.Errorf("PersistentVolumeClaim %s has no NVMePartition", name)
	}
	return partition, err
}

// DeleteClaim deletes a claim and waits until its volume and slice, of whichever
// family, are gone.
func (f *Flow) DeleteClaim(ctx context.Context, name string) error {
	claim := &corev1.PersistentVolumeClaim{}
	err := f.client.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: name}, claim)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete PersistentVolumeClaim %s: %w", name, err)
	}
	slice := sliceName(claim)
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
	partition := &v1alpha1.NVMePartition{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.DefaultNamespace, Name: slice}}
	zvol := &v1alpha1.Volume{ObjectMeta: metav1.ObjectMeta{Name: slice}}
	// The provisioner refuses to delete what is attached, and then waits longer
	// from try to try.
	if err := f.WaitDetached(ctx, name); err != nil {
		return err
	}
	if err := f.deleteAndWait(ctx, claim, deleteTimeout); err != nil {
		return err
	}
	for _, object := range []client.Object{volume, partition, zvol} {
		if object.GetName() == "" {
			continue
		}
		if err := f.waitGone(ctx, object, deleteTimeout); err != nil {
			return err
		}
	}
	return nil
}

// waitGone waits until somebody else's deletion of an object is complete.
func (f *Flow) waitGone(ctx context.Context, object client.Object, timeout time.Duration) error {
	key := client.ObjectKeyFromObject(object)
	return Eventually(ctx, fmt.Sprintf("%T %s disappears", object, key), timeout, func(ctx context.Context) (string, error) {
		err := f.client.Get(ctx, key, object)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("still there, deleted at %v, finalizers %v", object.GetDeletionTimestamp(), object.GetFinalizers()), nil
	})
}
