package controlplanetest

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// volume places and exports a volume, or takes it away.
func (s *Stub) volume(ctx context.Context, b Behaviour, v v1alpha1.Slice) error {
	if v.GetDeletionTimestamp() != nil {
		return s.removeVolume(ctx, b, v)
	}
	old := copyOf(v)
	if v.GetTargetNode() == "" {
		if b.NoCandidate != "" {
			set(v, v1alpha1.ConditionPlaced, false, v1alpha1.ReasonNoCandidate, b.NoCandidate)
			return s.patchStatus(ctx, v, old)
		}
		place(v, cmp.Or(b.StorageNode, StorageNode))
		return s.client.Patch(ctx, v, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}))
	}
	if b.Refuse != "" {
		set(v, v1alpha1.ConditionProvisioned, false, b.Refuse, "refused by the test")
		if meta.IsStatusConditionTrue(v.GetConditions(), v1alpha1.ConditionExported) {
			set(v, v1alpha1.ConditionExported, false, v1alpha1.ReasonExportFailed, "refused by the test")
		}
		return s.patchStatus(ctx, v, old)
	}
	if b.HoldExport {
		return nil
	}
	observe(v)
	grow(b, v)
	modify(b, v)
	if b.Exported != nil && !equality.Semantic.DeepEqual(v, old) {
		if err := b.Exported(v); err != nil {
			return err
		}
	}
	return s.patchStatus(ctx, v, old)
}

// grow answers a spec that asks for more than there is.
func grow(b Behaviour, v v1alpha1.Slice) {
	switch size := v.GetSize(); {
	case size <= v.GetActualSize():
	case b.MaxSize == 0 || size <= b.MaxSize:
		carve(v, size)
		set(v, v1alpha1.ConditionResized, true, v1alpha1.ReasonResized, "read back")
	case b.GrowthReason != "":
		set(v, v1alpha1.ConditionResized, false, b.GrowthReason, fmt.Sprintf("%d bytes are wanted, %d can be had", size, b.MaxSize))
	}
}

// modify answers a spec that asks for another compression.
func modify(b Behaviour, slice v1alpha1.Slice) {
	v, ok := slice.(*v1alpha1.Volume)
	switch {
	case !ok || v.Spec.Compression == v.Status.Compression:
	case b.ModifyReason == "":
		v.Status.Compression = v.Spec.Compression
	default:
		set(v, v1alpha1.ConditionModified, false, b.ModifyReason, "compression "+v.Spec.Compression+" is refused by the test")
	}
}

func (s *Stub) removeVolume(ctx context.Context, b Behaviour, v v1alpha1.Slice) error {
	var attachments v1alpha1.NVMeVolumeAttachmentList
	if err := s.client.List(ctx, &attachments, client.InNamespace(s.namespace)); err != nil {
		return err
	}
	for _, a := range attachments.Items {
		if a.Spec.VolumeRef.UID == v.GetUID() {
			return nil
		}
	}
	old := copyOf(v)
	if b.HoldDelete {
		set(v, v1alpha1.ConditionExported, false, cmp.Or(b.DeleteReason, v1alpha1.ReasonDeleting), "held by the test")
		return s.patchStatus(ctx, v, old)
	}
	if b.Unexported != nil && v.GetNQN() != "" {
		if err := b.Unexported(v); err != nil {
			return err
		}
	}
	controllerutil.RemoveFinalizer(v, v1alpha1.SliceFinalizer)
	return client.IgnoreNotFound(s.client.Patch(ctx, v, client.MergeFrom(old)))
}

// attachment grants or revokes access.
func (s *Stub) attachment(ctx context.Context, b Behaviour, a *v1alpha1.NVMeVolumeAttachment) error {
	v := v1alpha1.NewSlice(a.Spec.VolumeRef.Kind)
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: a.Spec.VolumeRef.Namespace, Name: a.Spec.VolumeRef.Name}, v); err != nil {
		return err
	}
	old := a.DeepCopy()
	if a.DeletionTimestamp != nil {
		return s.revoke(ctx, b, v, a)
	}
	if b.HoldGrant {
		return nil
	}
	a.Status.ObservedAttachmentID = a.Spec.AttachmentID
	if b.GrantReason != "" {
		setCondition(a, &a.Status.Conditions, v1alpha1.ConditionAccessReady, false, b.GrantReason, "refused by the test")
		return s.patchStatus(ctx, a, old)
	}
	setCondition(a, &a.Status.Conditions, v1alpha1.ConditionAccessReady, true, v1alpha1.ReasonGranted, "host is on the list")
	if a.Status.Filesystem == nil {
		a.Status.Filesystem = v.GetFilesystemStatus()
	}
	if a.Status.Filesystem.Recovered() && !v.GetFilesystemStatus().Recovered() {
		oldV := copyOf(v)
		v.SetFilesystemStatus(a.Status.Filesystem)
		if err := s.patchStatus(ctx, v, oldV); err != nil {
			return err
		}
	}
	if b.Granted != nil {
		if err := b.Granted(v, a); err != nil {
			return err
		}
	}
	return s.patchStatus(ctx, a, old)
}

func (s *Stub) revoke(ctx context.Context, b Behaviour, v v1alpha1.Slice, a *v1alpha1.NVMeVolumeAttachment) error {
	old := a.DeepCopy()
	if b.HoldRevoke != "" {
		setCondition(a, &a.Status.Conditions, v1alpha1.ConditionAccessReady, false, v1alpha1.ReasonRevoking, b.HoldRevoke)
		return s.patchStatus(ctx, a, old)
	}
	if b.Revoked != nil {
		if err := b.Revoked(v, a); err != nil {
			return err
		}
	}
	if a.Status.Filesystem != nil && !equality.Semantic.DeepEqual(v.GetFilesystemStatus(), a.Status.Filesystem) {
		oldV := copyOf(v)
		v.SetFilesystemStatus(a.Status.Filesystem)
		if err := s.patchStatus(ctx, v, oldV); err != nil {
			return err
		}
	}
	controllerutil.RemoveFinalizer(a, v1alpha1.AccessFinalizer)
	return client.IgnoreNotFound(s.client.Patch(ctx, a, client.MergeFrom(old)))
}

func (s *Stub) patchStatus(ctx context.Context, o, old client.Object) error {
	if equality.Semantic.DeepEqual(o, old) {
		return nil
	}
	return client.IgnoreNotFound(s.client.Status().Patch(ctx, o, client.MergeFrom(old)))
}

func copyOf(v v1alpha1.Slice) v1alpha1.Slice { return v.DeepCopyObject().(v1alpha1.Slice) }

func set(v v1alpha1.Slice, kind string, ok bool, reason, message string) {
	conditions := v.GetConditions()
	setCondition(v, &conditions, kind, ok, reason, message)
	v.SetConditions(conditions)
}

func setCondition(o client.Object, conditions *[]metav1.Condition, kind string, ok bool, reason, message string) {
	status := metav1.ConditionFalse
	if ok {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: o.GetGeneration(),
	})
}
