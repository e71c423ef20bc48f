package flow

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// poolTimeout bounds how long an agent may take to notice what became of a pool: it
// looks at its pools at least once a minute, and at a volume that waits for one.
const poolTimeout = 4 * time.Minute

// DeclarePools makes the StorageNode of a node, which declares pools by GUID.
func (f *Flow) DeclarePools(ctx context.Context, node, domain string, guids ...string) error {
	object := &v1alpha1.StorageNode{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec:       v1alpha1.StorageNodeSpec{NetworkDomain: v1alpha1.DomainName(domain)},
	}
	for _, guid := range guids {
		object.Spec.AuthoritativePoolGUIDs = append(object.Spec.AuthoritativePoolGUIDs, v1alpha1.PoolGUID(guid))
	}
	if err := f.client.Create(ctx, object); err != nil {
		return fmt.Errorf("make StorageNode %s: %w", node, err)
	}
	return nil
}

// WaitStorageNode waits until condition Ready of a StorageNode has that reason and a
// message with all of the parts, and returns the message.
func (f *Flow) WaitStorageNode(ctx context.Context, name, reason string, parts ...string) (message string, err error) {
	what := fmt.Sprintf("StorageNode %s has Ready with reason %s and %q", name, reason, parts)
	err = Eventually(ctx, what, poolTimeout, func(ctx context.Context) (string, error) {
		node := &v1alpha1.StorageNode{}
		if err := f.client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return "", err
		}
		if c := meta.FindStatusCondition(node.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Reason == reason && containsAll(c.Message, parts) {
			message = c.Message
			return "", nil
		}
		return "conditions: " + Conditions(node.Status.Conditions), nil
	})
	return message, err
}

// DeleteStorageNode deletes a StorageNode and waits until it is gone.
func (f *Flow) DeleteStorageNode(ctx context.Context, name string) error {
	return f.deleteAndWait(ctx, &v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: name}}, releaseTimeout)
}

// PoolVolume returns the Volume of a claim, nil if there is none.
func (f *Flow) PoolVolume(ctx context.Context, claim string) (*v1alpha1.Volume, error) {
	object := &corev1.PersistentVolumeClaim{}
	if err := f.client.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: claim}, object); err != nil {
		return nil, fmt.Errorf("volume of PersistentVolumeClaim %s: %w", claim, err)
	}
	volume := &v1alpha1.Volume{}
	err := f.client.Get(ctx, client.ObjectKey{Name: sliceName(object)}, volume)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("volume of PersistentVolumeClaim %s: %w", claim, err)
	}
	return volume, nil
}

// WaitPoolBound waits until a claim is bound to a volume on a pool.
func (f *Flow) WaitPoolBound(ctx context.Context, name string) (*v1alpha1.Volume, error) {
	var volume *v1alpha1.Volume
	err := Eventually(ctx, "PersistentVolumeClaim "+name+" becomes Bound", provisionTimeout, func(ctx context.Context) (string, error) {
		claim := &corev1.PersistentVolumeClaim{}
		err := f.client.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: name}, claim)
		if err != nil {
			return "", err
		}
		if volume, err = f.PoolVolume(ctx, name); err != nil {
			return "", err
		}
		switch {
		case volume == nil:
			return "claim is " + string(claim.Status.Phase) + ", no Volume yet", nil
		case claim.Status.Phase != corev1.ClaimBound:
			return "claim is " + string(claim.Status.Phase) + ", Volume " + volume.Name + ": " + Conditions(volume.Status.Conditions), nil
		}
		return "", nil
	})
	return volume, err
}

// WaitVolume waits until a condition of a Volume has that reason and a message with
// all of the parts.
func (f *Flow) WaitVolume(ctx context.Context, name, condition, reason string, parts ...string) error {
	what := fmt.Sprintf("Volume %s has %s with reason %s and %q", name, condition, reason, parts)
	return Eventually(ctx, what, poolTimeout, func(ctx context.Context) (string, error) {
		volume := &v1alpha1.Volume{}
		if err := f.client.Get(ctx, client.ObjectKey{Name: name}, volume); err != nil {
			return "", err
		}
		c := meta.FindStatusCondition(volume.Status.Conditions, condition)
		if c != nil && c.Reason == reason && containsAll(c.Message, parts) {
			return "", nil
		}
		return "conditions: " + Conditions(volume.Status.Conditions), nil
	})
}

// RequestDeletion asks for the deletion of a claim. What it returns waits until its
// volume is gone.
func (f *Flow) RequestDeletion(ctx context.Context, name string) (gone func(context.Context) error, err error) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
	if err = f.client.Get(ctx, client.ObjectKeyFromObject(claim), claim); err == nil {
		err = f.client.Delete(ctx, claim)
	}
	if err != nil {
		return nil, fmt.Errorf("delete PersistentVolumeClaim %s: %w", name, err)
	}
	return func(ctx context.Context) error {
		for _, object := range []client.Object{
			&v1alpha1.Volume{ObjectMeta: metav1.ObjectMeta{Name: sliceName(claim)}},
			&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}},
		} {
			if err := f.waitGone(ctx, object, poolTimeout); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// printPoolObjects prints the objects of the pool family.
func (f *Flow) printPoolObjects(ctx context.Context, out io.Writer) error {
	nodes := &v1alpha1.StorageNodeList{}
	if err := f.client.List(ctx, nodes); err != nil {
		return err
	}
	for _, o := range nodes.Items {
		fmt.Fprintf(out, "StorageNode %s pools=%v: %s\n", o.Name, o.Spec.AuthoritativePoolGUIDs, Conditions(o.Status.Conditions))
	}
	volumes := &v1alpha1.VolumeList{}
	if err := f.client.List(ctx, volumes); err != nil {
		return err
	}
	for _, o := range volumes.Items {
		fmt.Fprintf(out, "Volume %s state=%s node=%s zvol=%s deleted=%v: %s\n", o.Name, o.Status.State, o.Spec.OwnerNode, o.Status.DatasetPath, o.DeletionTimestamp, Conditions(o.Status.Conditions))
	}
	snapshots := &v1alpha1.SnapshotList{}
	if err := f.client.List(ctx, snapshots); err != nil {
		return err
	}
	for _, o := range snapshots.Items {
		fmt.Fprintf(out, "Snapshot %s of=%s deleted=%v: %s\n", o.Name, o.Spec.Source.Name, o.DeletionTimestamp, Conditions(o.Status.Conditions))
	}
	return nil
}
