package placement

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Source feeds a controller's queue from the Ledger and keeps its workers
// waiting until the Ledger is ready.
func Source[request comparable](l *Ledger, requests func(Change) []request, delay time.Duration) source.TypedSyncingSource[request] {
	return &ledgerSource[request]{ledger: l, requests: requests, delay: delay}
}

type ledgerSource[request comparable] struct {
	ledger   *Ledger
	requests func(Change) []request
	// delay lets many changes of one thing become one request.
	delay time.Duration
}

// Start subscribes the queue to the Ledger's changes.
func (s *ledgerSource[request]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
	cancel := s.ledger.Subscribe(func(change Change) {
		for _, r := range s.requests(change) {
			queue.AddAfter(r, s.delay)
		}
	})
	context.AfterFunc(ctx, cancel)
	// What changed before the subscription is told as one change.
	for _, r := range s.requests(s.ledger.Everything()) {
		queue.AddAfter(r, s.delay)
	}
	return nil
}

// WaitForSync waits until the Ledger knows all earlier placements.
func (s *ledgerSource[request]) WaitForSync(ctx context.Context) error {
	return s.ledger.WaitReady(ctx)
}
