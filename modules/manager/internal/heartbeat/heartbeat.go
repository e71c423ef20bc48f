// Package heartbeat tells until when a storage node counts as alive, from the
// Leases that distort-agent renews.
package heartbeat

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Stale is the age of a Lease at which its node counts as gone.
const Stale = v1alpha1.LeaseStaleSeconds * time.Second

// Tracker remembers when each node's Lease was last seen to move. It goes by
// the clock of this process alone: only the first Lease that it sees of a node
// is judged by the time written in it, because nothing else is known then.
type Tracker struct {
	clock func() time.Time

	mu    sync.Mutex
	nodes map[string]beat
}

type beat struct{ renewed, deadline time.Time }

// NewTracker makes a Tracker that reads the clock, time.Now outside tests.
func NewTracker(clock func() time.Time) *Tracker {
	return &Tracker{clock: clock, nodes: map[string]beat{}}
}

// Observe takes note of a node's Lease and returns the time until which the
// node counts as alive. A Lease that was seen before changes nothing.
func (t *Tracker) Observe(node string, lease *coordinationv1.Lease) time.Time {
	var renewed time.Time
	if lease.Spec.RenewTime != nil {
		renewed = lease.Spec.RenewTime.Time
	}
	now := t.clock()
	t.mu.Lock()
	defer t.mu.Unlock()
	last, known := t.nodes[node]
	switch {
	case known && last.renewed.Equal(renewed):
		return last.deadline
	case known, renewed.After(now):
		t.nodes[node] = beat{renewed, now.Add(Stale)}
	default:
		t.nodes[node] = beat{renewed, renewed.Add(Stale)}
	}
	return t.nodes[node].deadline
}

// Deadline is the time until which the node counts as alive; false for a node
// whose Lease was never seen.
func (t *Tracker) Deadline(node string) (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, known := t.nodes[node]
	return last.deadline, known
}

// Alive tells whether the node counts as alive now.
func (t *Tracker) Alive(node string) bool {
	deadline, known := t.Deadline(node)
	return known && t.clock().Before(deadline)
}
