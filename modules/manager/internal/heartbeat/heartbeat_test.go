package heartbeat

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func lease(renewed time.Time) *coordinationv1.Lease {
	micro := metav1.NewMicroTime(renewed)
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &micro}}
}

func TestTracker(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	type observation struct {
		at      time.Duration
		renewed time.Duration
	}
	cases := map[string]struct {
		observations []observation
		deadline     time.Duration
	}{
		"the first Lease is judged by its own time": {
			observations: []observation{{at: 0, renewed: -10 * time.Second}},
			deadline:     Stale - 10*time.Second,
		},
		"an old Lease is stale at once": {
			observations: []observation{{at: 0, renewed: -time.Hour}},
			deadline:     Stale - time.Hour,
		},
		"a clock ahead of ours gains nothing": {
			observations: []observation{{at: 0, renewed: time.Hour}},
			deadline:     Stale,
		},
		"a renewal counts from when it was seen, whatever time it names": {
			observations: []observation{{at: 0, renewed: -time.Hour}, {at: 5 * time.Second, renewed: -time.Hour + time.Second}},
			deadline:     5*time.Second + Stale,
		},
		"the same Lease seen again renews nothing": {
			observations: []observation{{at: 0, renewed: 0}, {at: 30 * time.Second, renewed: 0}},
			deadline:     Stale,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now := start
			tracker := NewTracker(func() time.Time { return now })
			for _, o := range tc.observations {
				now = start.Add(o.at)
				tracker.Observe("storage-a", lease(start.Add(o.renewed)))
			}
			deadline, known := tracker.Deadline("storage-a")
			if !known || !deadline.Equal(start.Add(tc.deadline)) {
				t.Errorf("deadline %v (known %v), want %v", deadline.Sub(start), known, tc.deadline)
			}
			now = start.Add(tc.deadline - time.Nanosecond)
			if !tracker.Alive("storage-a") {
				t.Error("dead just before the deadline")
			}
			now = start.Add(tc.deadline)
			if tracker.Alive("storage-a") {
				t.Error("alive at the deadline")
			}
		})
	}
}

func TestNodeWithoutLeaseIsNotAlive(t *testing.T) {
	tracker := NewTracker(time.Now)
	if tracker.Alive("storage-a") {
		t.Error("a node without Lease counts as alive")
	}
	tracker.Observe("storage-a", lease(time.Now()))
	tracker.Observe("storage-b", &coordinationv1.Lease{})
	if !tracker.Alive("storage-a") || tracker.Alive("storage-b") {
		t.Error("want the renewed node alive and the one whose Lease names no time dead")
	}
}
