package nodehealth

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/write"
)

// RevocationReconciler says of attachments that are to be revoked on a silent
// storage node which proof is missing: AccessReady=Unknown/StorageNodeSilent
// (design.md §6). It releases nothing. The agent overtakes the condition when it
// is back, so that nothing is taken back here.
type RevocationReconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Recorder of events.
	Recorder events.EventRecorder
}

// revokedBy indexes the attachments under deletion by their storage node.
const revokedBy = "revokedBy"

// afterConflict is when a write that lost against another one is tried again: the
// winner's change is on its way to the cache.
const afterConflict = 100 * time.Millisecond

// SetupWithManager registers the reconciler.
func (r *RevocationReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.NVMeVolumeAttachment{}, revokedBy, storageNodeToRevoke); err != nil {
		return fmt.Errorf("index attachments: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).Named("revocation").
		For(&v1alpha1.NVMeVolumeAttachment{}, builder.WithPredicates(deletionBegan())).
		Watches(&v1alpha1.RDMAStorageNode{}, handler.EnqueueRequestsFromMapFunc(r.onNode), builder.WithPredicates(fellSilent())).
		Complete(r)
}

func storageNodeToRevoke(o client.Object) []string {
	if a := o.(*v1alpha1.NVMeVolumeAttachment); a.DeletionTimestamp != nil {
		return []string{a.Spec.TargetNode}
	}
	return nil
}

// deletionBegan leaves out what the agent writes of a revocation: an agent that
// works, whatever became of its Lease, has the last word.
func deletionBegan() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return e.Object.GetDeletionTimestamp() != nil },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

func fellSilent() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return silence(e.Object.(*v1alpha1.RDMAStorageNode)) != nil },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return silence(e.ObjectOld.(*v1alpha1.RDMAStorageNode)) == nil && silence(e.ObjectNew.(*v1alpha1.RDMAStorageNode)) != nil
		},
	}
}

// silence is the condition of a storage node whose agent is silent, else nil.
func silence(node *v1alpha1.RDMAStorageNode) *metav1.Condition {
	if c := meta.FindStatusCondition(node.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Reason == v1alpha1.ReasonHeartbeatExpired {
		return c
	}
	return nil
}

func (r *RevocationReconciler) onNode(ctx context.Context, node client.Object) []reconcile.Request {
	var list v1alpha1.NVMeVolumeAttachmentList
	if err := r.Client.List(ctx, &list, client.MatchingFields{revokedBy: node.GetName()}); err != nil {
		log.FromContext(ctx).Error(err, "list the attachments of a silent storage node", "node", node.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// Reconcile looks at one attachment.
func (r *RevocationReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	a := &v1alpha1.NVMeVolumeAttachment{}
	if err := r.Client.Get(ctx, request.NamespacedName, a); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if a.DeletionTimestamp == nil {
		return reconcile.Result{}, nil
	}
	node := &v1alpha1.RDMAStorageNode{}
	var why string
	switch err := r.Client.Get(ctx, client.ObjectKey{Name: a.Spec.TargetNode}, node); {
	case apierrors.IsNotFound(err):
		why = fmt.Sprintf("there is no RDMAStorageNode %s", a.Spec.TargetNode)
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("read RDMAStorageNode %s: %w", a.Spec.TargetNode, err)
	default:
		c := silence(node)
		if c == nil {
			return reconcile.Result{}, nil
		}
		why = fmt.Sprintf("storage node %s is silent, not ready since %s: %s", node.Name, c.LastTransitionTime.UTC().Format(time.RFC3339), c.Message)
	}
	return r.say(ctx, a, missingProof(a, why))
}

// missingProof names the observation without which nothing is released.
func missingProof(a *v1alpha1.NVMeVolumeAttachment, why string) string {
	return fmt.Sprintf("%s; access of node %s is not released before distort-agent on %s has observed that host %s is off the target's list, that its writes are drained and that it has no controller",
		why, a.Spec.NodeID, a.Spec.TargetNode, a.Spec.HostNQN)
}

// say writes the condition, unless it is there or the proof is: an agent may have
// died between the evidence and the release.
func (r *RevocationReconciler) say(ctx context.Context, a *v1alpha1.NVMeVolumeAttachment, message string) (reconcile.Result, error) {
	last := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionAccessReady)
	switch {
	case last == nil:
	case last.Reason == v1alpha1.ReasonRevoked, last.Reason == v1alpha1.ReasonStorageNodeSilent && strings.HasPrefix(last.Message, message):
		return reconcile.Result{}, nil
	}
	full := message
	if last != nil && last.Reason == v1alpha1.ReasonRevoking {
		full += "; its last word was: " + last.Message
	}
	base := a.DeepCopy()
	meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionAccessReady, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonStorageNodeSilent,
		Message: tracing.Note(a, tracing.End, full), ObservedGeneration: a.Generation,
	})
	switch err := write.Status(ctx, r.Client, a, base); {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: afterConflict}, nil
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("say what is missing for the revocation of NVMeVolumeAttachment %s/%s: %w", a.Namespace, a.Name, err)
	}
	log.FromContext(ctx).Info("revocation waits for a silent storage node", "node", a.Spec.TargetNode, "host", a.Spec.NodeID, "attachmentID", a.Spec.AttachmentID)
	r.Recorder.Eventf(a, nil, corev1.EventTypeWarning, v1alpha1.ReasonStorageNodeSilent, "Revoke", "%s", message)
	return reconcile.Result{}, nil
}
