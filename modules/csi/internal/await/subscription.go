package await

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// The API server is asked when a tenth of the time is left, within these
	// bounds.
	minLiveMargin = 100 * time.Millisecond
	maxLiveMargin = 2 * time.Second
)

// Observation is what is known of the object at one moment.
type Observation[T client.Object] struct {
	// Object is only valid when Found.
	Object T
	Found  bool
	// Live observations come from the API server and are true now; others come
	// from the cache, which may not yet have heard of a new object.
	Live bool
}

// Predicate tells from an observation whether the wait is over. An error ends
// it too.
type Predicate[T client.Object] func(Observation[T]) (done bool, err error)

// Subscription listens for the events of one object.
type Subscription[T client.Object] struct {
	kind *Kind[T]
	key  types.NamespacedName
	// events holds at most one wake-up: the waiter reads the newest state, so
	// more would tell it nothing.
	events chan struct{}
}

func (s *Subscription[T]) wake() {
	select {
	case s.events <- struct{}{}:
	default:
	}
}

// Close ends the subscription.
func (s *Subscription[T]) Close() {
	s.kind.mu.Lock()
	defer s.kind.mu.Unlock()
	delete(s.kind.waiting[s.key], s)
	if len(s.kind.waiting[s.key]) == 0 {
		delete(s.kind.waiting, s.key)
	}
}

// Until waits for the predicate and returns the object as the predicate last
// saw it. When ctx ends first, the error wraps ctx's.
func (s *Subscription[T]) Until(ctx context.Context, done Predicate[T]) (T, error) {
	var nearDeadline <-chan time.Time
	if deadline, bounded := ctx.Deadline(); bounded {
		left := time.Until(deadline)
		timer := time.NewTimer(left - min(max(left/10, minLiveMargin), maxLiveMargin))
		defer timer.Stop()
		nearDeadline = timer.C
	}
	reader, live := s.kind.cached, false
	for {
		object, over, err := s.look(ctx, reader, live, done)
		if err != nil || over {
			return object, err
		}
		select {
		case <-s.events:
			reader, live = s.kind.cached, false
		case <-nearDeadline:
			reader, live = s.kind.live, true
		case <-ctx.Done():
			return object, fmt.Errorf("wait for %T %s: %w", object, s.key, ctx.Err())
		}
	}
}

func (s *Subscription[T]) look(ctx context.Context, reader client.Reader, live bool, done Predicate[T]) (object T, over bool, err error) {
	object = s.kind.newObject()
	found := true
	if err := reader.Get(ctx, s.key, object); apierrors.IsNotFound(err) {
		found = false
	} else if err != nil {
		return object, false, fmt.Errorf("read %T %s: %w", object, s.key, err)
	}
	over, err = done(Observation[T]{Object: object, Found: found, Live: live})
	return object, over, err
}
