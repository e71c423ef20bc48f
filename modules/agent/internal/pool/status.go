package pool

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/agent/internal/audit"
	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// maxMessage bounds what programs say.
const maxMessage = 2048

// status is the status after a look. The node fails closed: unless everything was
// as it should be, no pool is ready.
func (r *Reporter) status(have *v1alpha1.StorageNode, s *sight) v1alpha1.StorageNodeStatus {
	st := *have.Status.DeepCopy()
	st.ObservedGeneration = have.Generation
	st.ReachableFrom = []v1alpha1.DomainName{have.Spec.NetworkDomain}
	st.Endpoints = s.endpoints
	ready := s.reason == v1alpha1.ReasonObservationSucceeded
	st.Pools = r.pools(have, s, ready)
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: s.reason, Message: s.message, ObservedGeneration: have.Generation}
	if ready {
		c.Status = metav1.ConditionTrue
	}
	if len(c.Message) > maxMessage {
		c.Message = c.Message[:maxMessage]
	}
	meta.SetStatusCondition(&st.Conditions, c)
	if s.audited {
		c := audit.Condition(v1alpha1.ConditionAudited, s.strangers, s.missing)
		c.ObservedGeneration = have.Generation
		meta.SetStatusCondition(&st.Conditions, c)
	}
	return st
}

// pools are the declared pools in their order. One that could not be sampled keeps
// its last sample, so that its generation never goes back.
func (r *Reporter) pools(have *v1alpha1.StorageNode, s *sight, ready bool) []v1alpha1.PoolStatus {
	now := metav1.NewTime(r.Now()).Rfc3339Copy()
	var out []v1alpha1.PoolStatus
	for _, guid := range have.Spec.AuthoritativePoolGUIDs {
		p := v1alpha1.PoolStatus{GUID: guid}
		at := slices.IndexFunc(have.Status.Pools, func(p v1alpha1.PoolStatus) bool { return p.GUID == guid })
		if at >= 0 {
			p = have.Status.Pools[at]
		}
		p.Ready = false
		if seen, there := s.pools[guid]; there {
			p.Name = seen.name
			if seen.sample != nil {
				// A few blocks more or less are no news.
				p.FreeBytes = seen.sample.FreeBytes / capacity.Unit * capacity.Unit
				p.SampleGeneration, p.CapacityObservedAt = seen.generation, &now
				p.Ready = ready
			}
		} else if at < 0 {
			continue // nothing is known of it
		}
		out = append(out, p)
	}
	return out
}
