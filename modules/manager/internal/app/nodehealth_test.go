package app_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

func ready(name string, status metav1.ConditionStatus, reason string, says ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		n := &v1alpha1.RDMAStorageNode{}
		if err := server.client.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
			return err
		}
		return conditionIs(n.Status.Conditions, v1alpha1.ConditionReady, status, reason, says...)
	}
}

func TestSilentNodeIsSetNotReadyWhenItsLeaseExpires(t *testing.T) {
	counted := start(t)
	// The Lease has some seconds left, so that Ready=True is seen first.
	left := 4 * time.Second
	renewed := time.Now().Add(left - v1alpha1.LeaseStaleSeconds*time.Second)
	create(t, lease("silent", renewed), storageNode("silent"), lease("alive", time.Now()), storageNode("alive"))
	if err := ready("silent", metav1.ConditionTrue, v1alpha1.ReasonAgentReady)(t.Context()); err != nil {
		t.Errorf("before the Lease expired: %v", err)
	}
	eventually(t, "silent node", ready("silent", metav1.ConditionFalse, v1alpha1.ReasonHeartbeatExpired,
		"distort-agent-silent", renewed.UTC().Format(time.RFC3339)))
	if early := time.Until(renewed.Add(v1alpha1.LeaseStaleSeconds * time.Second)); early > 0 {
		t.Errorf("expired %s too early", early)
	}
	quiet(t)
	if err := ready("alive", metav1.ConditionTrue, v1alpha1.ReasonAgentReady)(t.Context()); err != nil {
		t.Errorf("the other node: %v", err)
	}
	expirations := len(counted.to("/rdmastoragenodes/silent/status"))
	// One for the condition and one for the free capacity of 0.
	if expirations != 2 {
		t.Errorf("%d writes to the silent node, want 2", expirations)
	}

	// Its agent comes back, renews and says so; nobody disputes it.
	l := lease("silent", time.Now())
	get(t, l)
	now := metav1.NowMicro()
	l.Spec.RenewTime = &now
	if err := server.client.Update(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	alter(t, storageNode("silent"), func(n *v1alpha1.RDMAStorageNode) {
		n.Status.Conditions = storageNode("silent").Status.Conditions
	})
	quiet(t)
	if err := ready("silent", metav1.ConditionTrue, v1alpha1.ReasonAgentReady)(t.Context()); err != nil {
		t.Errorf("after the agent came back: %v", err)
	}
}

func TestNodeOfALeaseThatIsLongOldIsSetNotReadyAtOnce(t *testing.T) {
	start(t)
	create(t, lease("old", time.Now().Add(-time.Hour)), storageNode("old"))
	eventually(t, "old node", ready("old", metav1.ConditionFalse, v1alpha1.ReasonHeartbeatExpired))
	eventually(t, "event", func(ctx context.Context) error {
		n := storageNode("old")
		if err := server.client.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		return told(n, v1alpha1.ReasonHeartbeatExpired)(ctx)
	})
}

func TestLeasesOfOthersAreNoHeartbeat(t *testing.T) {
	start(t)
	other := lease("silent", time.Now())
	other.Namespace = "default"
	t.Cleanup(func() {
		if err := server.client.Delete(context.Background(), other); err != nil {
			t.Error(err)
		}
	})
	create(t, other, lease("silent", time.Now().Add(-time.Hour)), storageNode("silent"))
	eventually(t, "silent node", ready("silent", metav1.ConditionFalse, v1alpha1.ReasonHeartbeatExpired))
}
