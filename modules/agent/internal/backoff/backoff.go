// Package backoff says how soon a pass that failed is tried again.
package backoff

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The first wait and the longest. The default of the work queue grows to a
// quarter of an hour, as long as a detach would then wait after its drive came
// back.
const (
	first   = 50 * time.Millisecond
	longest = 30 * time.Second
)

// New returns the limiter of one controller: waits double from first to longest
// for each object by itself.
func New() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](first, longest)
}
