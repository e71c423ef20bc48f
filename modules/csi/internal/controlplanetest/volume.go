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

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// partition places and exports a volume, or takes it away.
func (s *Stub) partition(ctx context.Context, b Behaviour, p *v1alpha1.NVMePartition) error {
	if p.DeletionTimestamp != nil {
		return s.removePartition(ctx, b, p)
	}
	old := p.DeepCopy()
	if p.Spec.NodeName == "" {
		if b.NoCandidate != "" {
			setCondition(p, &p.Status.Conditions, v1alpha1.ConditionPlaced, false, v1alpha1.ReasonNoCandidate, b.NoCandidate)
			return s.patchStatus(ctx, p, old)
		}
		p.Spec.NodeName = cmp.Or(b.StorageNode, StorageNode)
		p.Spec.ParentDeviceSerialNumber = SerialOn(p.Spec.NodeName)
		p.Spec.ClaimRef = &v1alpha1.ObjectReference{Namespace: p.Namespace, Name: "claim-1", UID: "claim-uid"}
		return s.client.Patch(ctx, p, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}))
	}
	if b.Refuse != "" {
		setCondition(p, &p.Status.Conditions, v1alpha1.ConditionProvisioned, false, b.Refuse, "refused by the test")
		if meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionExported) {
			setCondition(p, &p.Status.Conditions, v1alpha1.ConditionExported, false, v1alpha1.ReasonExportFailed, "refused by the test")
		}
		return s.patchStatus(ctx, p, old)
	}
	if b.HoldExport {
		return nil
	}
	observe(p)
	grow(b, p)
	if b.Exported != nil && !equality.Semantic.DeepEqual(p, old) {
		if err := b.Exported(p); err != nil {
			return err
		}
	}
	return s.patchStatus(ctx, p, old)
}

// observe fills in what the agent reports of a healthy export.
func observe(p *v1alpha1.NVMePartition) {
	uid := string(p.UID)
	st := &p.Status
	st.State = v1alpha1.PartitionExported
	st.ExternalID = identity.ExternalID(uid)
	if st.AllocatedCapacity == 0 {
		st.AllocatedCapacity = p.Spec.Size
	}
	st.NQN = identity.VolumeNQN(st.ExternalID)
	st.NamespaceUUID, st.NamespaceNGUID = identity.NamespaceUUID(uid), identity.NamespaceNGUID(uid)
	st.Portals = []v1alpha1.Portal{{Transport: p.Spec.Transport, Address: "10.0.0.1", Port: 4420}}
	setCondition(p, &st.Conditions, v1alpha1.ConditionPlaced, true, v1alpha1.ReasonPlaced, "placed")
	setCondition(p, &st.Conditions, v1alpha1.ConditionClaimAuthorized, true, v1alpha1.ReasonClaimMatches, "claim matches")
	setCondition(p, &st.Conditions, v1alpha1.ConditionProvisioned, true, v1alpha1.ReasonCarved, "carved")
	setCondition(p, &st.Conditions, v1alpha1.ConditionExported, true, v1alpha1.ReasonExported, "exported")
}

// grow answers a spec that asks for more than there is.
func grow(b Behaviour, p *v1alpha1.NVMePartition) {
	st := &p.Status
	switch {
	case p.Spec.Size <= st.AllocatedCapacity:
	case b.MaxSize == 0 || p.Spec.Size <= b.MaxSize:
		st.AllocatedCapacity = p.Spec.Size
		setCondition(p, &st.Conditions, v1alpha1.ConditionResized, true, v1alpha1.ReasonResized, "read back")
	case b.GrowthReason != "":
		setCondition(p, &st.Conditions, v1alpha1.ConditionResized, false, b.GrowthReason,
			fmt.Sprintf("%d bytes are wanted, %d can be had", p.Spec.Size, b.MaxSize))
	}
}

func (s *Stub) removePartition(ctx context.Context, b Behaviour, p *v1alpha1.NVMePartition) error {
	var attachments v1alpha1.NVMeVolumeAttachmentList
	if err := s.client.List(ctx, &attachments, client.InNamespace(s.namespace)); err != nil {
		return err
	}
	for _, a := range attachments.Items {
		if a.Spec.VolumeRef.UID == p.UID {
			return nil
		}
	}
	old := p.DeepCopy()
	if b.HoldDelete {
		setCondition(p, &p.Status.Conditions, v1alpha1.ConditionExported, false, cmp.Or(b.DeleteReason, v1alpha1.ReasonDeleting), "held by the test")
		return s.patchStatus(ctx, p, old)
	}
	if b.Unexported != nil && p.Status.NQN != "" {
		if err := b.Unexported(p); err != nil {
			return err
		}
	}
	controllerutil.RemoveFinalizer(p, v1alpha1.SliceFinalizer)
	return client.IgnoreNotFound(s.client.Patch(ctx, p, client.MergeFrom(old)))
}

// attachment grants or revokes access.
func (s *Stub) attachment(ctx context.Context, b Behaviour, a *v1alpha1.NVMeVolumeAttachment) error {
	var p v1alpha1.NVMePartition
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: a.Spec.VolumeRef.Namespace, Name: a.Spec.VolumeRef.Name}, &p); err != nil {
		return err
	}
	old := a.DeepCopy()
	if a.DeletionTimestamp != nil {
		return s.revoke(ctx, b, &p, a)
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
		a.Status.Filesystem = p.Status.Filesystem
	}
	if b.Granted != nil {
		if err := b.Granted(&p, a); err != nil {
			return err
		}
	}
	return s.patchStatus(ctx, a, old)
}

func (s *Stub) revoke(ctx context.Context, b Behaviour, p *v1alpha1.NVMePartition, a *v1alpha1.NVMeVolumeAttachment) error {
	old := a.DeepCopy()
	if b.HoldRevoke != "" {
		setCondition(a, &a.Status.Conditions, v1alpha1.ConditionAccessReady, false, v1alpha1.ReasonRevoking, b.HoldRevoke)
		return s.patchStatus(ctx, a, old)
	}
	if b.Revoked != nil {
		if err := b.Revoked(p, a); err != nil {
			return err
		}
	}
	if a.Status.Filesystem != nil && !equality.Semantic.DeepEqual(p.Status.Filesystem, a.Status.Filesystem) {
		oldP := p.DeepCopy()
		p.Status.Filesystem = a.Status.Filesystem
		if err := s.patchStatus(ctx, p, oldP); err != nil {
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

func setCondition(o client.Object, conditions *[]metav1.Condition, kind string, ok bool, reason, message string) {
	status := metav1.ConditionFalse
	if ok {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: o.GetGeneration(),
	})
}
