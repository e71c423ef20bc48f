package report

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestHeartbeatIsOneWrite(t *testing.T) {
	w := newWorld(t)
	h := &Heartbeat{Client: w.Client, NodeName: node, Namespace: "distort-system", Now: func() time.Time { return w.clock }}
	for i := range 3 {
		w.writes = nil
		w.clock = w.clock.Add(15 * time.Second)
		if err := h.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i > 0 && len(w.writes) != 1 {
			t.Errorf("renewal %d wrote %v", i, w.writes)
		}
	}
	var lease coordinationv1.Lease
	if err := w.Client.Get(t.Context(), types.NamespacedName{Namespace: "distort-system", Name: "distort-agent-" + node}, &lease); err != nil {
		t.Fatal(err)
	}
	if !lease.Spec.RenewTime.Time.Equal(w.clock) || *lease.Spec.LeaseDurationSeconds != 45 || *lease.Spec.HolderIdentity != node {
		t.Errorf("lease = %+v", lease.Spec)
	}
	if lease.Spec.AcquireTime == nil {
		t.Error("the renewals dropped the acquire time")
	}
}
