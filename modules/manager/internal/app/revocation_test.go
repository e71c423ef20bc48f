package app_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const consumer = "consumer-a"

// attachment is one of a consumer to a volume of a storage node.
func attachment(name, node string) *v1alpha1.NVMeVolumeAttachment {
	const id = "11111111-1111-4111-8111-111111111111"
	return &v1alpha1.NVMeVolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{v1alpha1.AccessFinalizer}},
		Spec: v1alpha1.NVMeVolumeAttachmentSpec{
			VolumeRef:  v1alpha1.VolumeReference{Kind: v1alpha1.KindNVMePartition, Namespace: namespace, Name: "pvc-1", UID: types.UID(id)},
			TargetNode: node, NodeID: consumer, HostNQN: identity.HostNQN(consumer), AttachmentID: id,
		},
	}
}

// accessOf checks an attachment's condition and that its message says something.
func accessOf(name string, status metav1.ConditionStatus, reason string, says ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		a := attachment(name, "")
		if err := server.client.Get(ctx, client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		return conditionIs(a.Status.Conditions, v1alpha1.ConditionAccessReady, status, reason, says...)
	}
}

// agentSays writes the condition as distort-agent does.
func agentSays(t *testing.T, name string, status metav1.ConditionStatus, reason, message string) {
	t.Helper()
	alter(t, attachment(name, ""), func(a *v1alpha1.NVMeVolumeAttachment) {
		meta.SetStatusCondition(&a.Status.Conditions, condition(v1alpha1.ConditionAccessReady, status, reason, message))
	})
}

func TestRevocationOnASilentNodeSaysWhichProofIsMissing(t *testing.T) {
	counted := start(t)
	create(t, lease("silent", time.Now().Add(-time.Hour)), storageNode("silent"), lease("alive", time.Now()), storageNode("alive"))
	eventually(t, "silent node", ready("silent", metav1.ConditionFalse, v1alpha1.ReasonHeartbeatExpired))
	for name, node := range map[string]string{
		"granted": "silent", "drains": "silent", "proven": "silent", "kept": "silent", "served": "alive", "orphan": "gone",
	} {
		create(t, attachment(name, node))
		agentSays(t, name, metav1.ConditionTrue, v1alpha1.ReasonGranted, "")
	}
	agentSays(t, "drains", metav1.ConditionFalse, v1alpha1.ReasonRevoking, "the namespace drains")
	agentSays(t, "proven", metav1.ConditionFalse, v1alpha1.ReasonRevoked, "the evidence is in status.revocation")
	for _, name := range []string{"granted", "drains", "proven", "served", "orphan"} {
		remove(t, attachment(name, ""))
	}

	unknown, reason := metav1.ConditionUnknown, v1alpha1.ReasonStorageNodeSilent
	eventually(t, "granted", accessOf("granted", unknown, reason, "storage node silent is silent", "not ready since 20", "distort-agent-silent was last renewed at",
		"access of node "+consumer, identity.HostNQN(consumer), "off the target's list", "drained", "no controller"))
	eventually(t, "drains", accessOf("drains", unknown, reason, "last word was: the namespace drains"))
	eventually(t, "orphan", accessOf("orphan", unknown, reason, "there is no RDMAStorageNode gone"))
	quiet(t)
	if diff := cmp.Diff(3, len(counted.to("/nvmevolumeattachments/"))); diff != "" {
		t.Errorf("writes (-want +got):\n%s\n%v", diff, counted.to("/nvmevolumeattachments/"))
	}
	for name, want := range map[string]func(context.Context) error{
		"a proof that is there":          accessOf("proven", metav1.ConditionFalse, v1alpha1.ReasonRevoked),
		"an attachment in use":           accessOf("kept", metav1.ConditionTrue, v1alpha1.ReasonGranted),
		"a storage node that is not out": accessOf("served", metav1.ConditionTrue, v1alpha1.ReasonGranted),
	} {
		if err := want(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	a := attachment("granted", "")
	get(t, a)
	eventually(t, "event", told(a, reason))

	// The agent works again, and nobody disputes it, whatever its Lease says.
	agentSays(t, "granted", metav1.ConditionFalse, v1alpha1.ReasonRevoking, "drain the namespace")
	quiet(t)
	if err := accessOf("granted", metav1.ConditionFalse, v1alpha1.ReasonRevoking)(t.Context()); err != nil {
		t.Errorf("after the agent came back: %v", err)
	}
}

// The node falls silent after the detach was asked for.
func TestRevocationThatWasUnderWayIsWokenByTheSilence(t *testing.T) {
	start(t)
	left := 3 * time.Second
	renewed := time.Now().Add(left - v1alpha1.LeaseStaleSeconds*time.Second)
	create(t, lease("silent", renewed), storageNode("silent"), attachment("a", "silent"))
	agentSays(t, "a", metav1.ConditionTrue, v1alpha1.ReasonGranted, "")
	remove(t, attachment("a", ""))
	if err := accessOf("a", metav1.ConditionTrue, v1alpha1.ReasonGranted)(t.Context()); err != nil {
		t.Errorf("before the Lease expired: %v", err)
	}
	eventually(t, "revocation", accessOf("a", metav1.ConditionUnknown, v1alpha1.ReasonStorageNodeSilent, renewed.UTC().Format(time.RFC3339)))
}
