package partition

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/agent/internal/jitter"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// checkPeriod is the longest time between two looks at all exports; the shortest
// is half of it.
const checkPeriod = time.Minute

// Check looks at all exports of the node from time to time, because nothing tells
// when somebody changes configfs or a drive. What is not as it should be goes
// through the reconciler, which repairs it or withdraws Exported.
type Check struct {
	cache    client.Reader
	verifier *volume.Verifier
	delay    func() time.Duration
	broken   chan event.GenericEvent
	changed  func()
	// strangers are those of the last look, nil before the first.
	strangers atomic.Pointer[[]string]
	unseen    atomic.Pointer[string]
}

// NewCheck returns a Check. A nil delay means 30 to 60 seconds, at random. changed
// is called when Strangers answers another list than before.
func NewCheck(cache client.Reader, v *volume.Verifier, delay func() time.Duration, changed func()) *Check {
	if delay == nil {
		delay = jitter.HalfToFull(checkPeriod)
	}
	return &Check{cache: cache, verifier: v, delay: delay, changed: changed, broken: make(chan event.GenericEvent)}
}

// Strangers are what the target has although no object asks for it, sorted; false
// before the first look.
func (c *Check) Strangers() ([]string, bool) {
	if list := c.strangers.Load(); list != nil {
		return *list, true
	}
	return nil, false
}

// Unseen says what of the target the looks do not show, whatever there is; empty when
// they show everything.
func (c *Check) Unseen() string {
	if text := c.unseen.Load(); text != nil {
		return *text
	}
	return ""
}

// Start implements manager.Runnable.
func (c *Check) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("check")
	for {
		timer := time.NewTimer(c.delay())
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		if err := c.once(log.IntoContext(ctx, logger)); err != nil && ctx.Err() == nil {
			logger.Error(err, "exports could not be checked")
		}
	}
}

func (c *Check) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, targetTimeout)
	defer cancel()
	logger := log.FromContext(ctx)
	var all v1alpha1.NVMePartitionList
	if err := c.cache.List(ctx, &all); err != nil {
		return fmt.Errorf("list partitions of this node: %w", err)
	}
	found, err := c.verifier.Verify(ctx, all.Items)
	if err != nil {
		return err
	}
	last, known := c.Strangers()
	if blind := c.unseen.Swap(&found.Unseen); !known || *blind != found.Unseen || !slices.Equal(found.Strangers, last) {
		if len(found.Strangers) > 0 {
			logger.Info("the target has what no object asks for; it is left alone", "strangers", found.Strangers)
		}
		c.strangers.Store(&found.Strangers)
		c.changed()
	}
	for i := range all.Items {
		p := &all.Items[i]
		differences, ok := found.Broken[p.UID]
		if !ok {
			continue
		}
		logger.Info("export is not as it should be", "namespace", p.Namespace, "name", p.Name, "differences", differences)
		select {
		case c.broken <- event.GenericEvent{Object: p}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
