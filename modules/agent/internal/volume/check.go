package volume

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/agent/internal/jitter"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// checkPeriod is the longest time between two looks at all exports; the shortest
// is half of it.
const checkPeriod = time.Minute

// checkTimeout bounds one look at all exports.
const checkTimeout = 30 * time.Second

// Check looks at all exports of the node from time to time, because nothing tells
// when somebody changes configfs or a drive. What is not as it should be goes
// through the reconciler, which repairs it or withdraws Exported.
type Check struct {
	cache    client.Reader
	verifier *Verifier
	delay    func() time.Duration
	broken   map[v1alpha1.VolumeKind]chan event.GenericEvent
	changed  func()
	now      chan struct{}
	// strangers are those of the last look, nil before the first.
	strangers atomic.Pointer[[]string]
	unseen    atomic.Pointer[string]
}

// NewCheck returns a Check. A nil delay means 30 to 60 seconds, at random. changed
// is called when Strangers answers another list than before.
func NewCheck(cache client.Reader, v *Verifier, delay func() time.Duration, changed func()) *Check {
	if delay == nil {
		delay = jitter.HalfToFull(checkPeriod)
	}
	return &Check{cache: cache, verifier: v, delay: delay, changed: changed, now: make(chan struct{}, 1), broken: map[v1alpha1.VolumeKind]chan event.GenericEvent{
		v1alpha1.KindNVMePartition: make(chan event.GenericEvent), v1alpha1.KindVolume: make(chan event.GenericEvent),
	}}
}

// Broken has the volumes of the kind that are not as they should be. Somebody has
// to receive them.
func (c *Check) Broken(kind v1alpha1.VolumeKind) <-chan event.GenericEvent { return c.broken[kind] }

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

// Now asks for a look at once: a target may have changed as a whole.
func (c *Check) Now() {
	select {
	case c.now <- struct{}{}:
	default: // one is due already
	}
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
		case <-c.now:
			timer.Stop()
		case <-timer.C:
		}
		if err := c.once(log.IntoContext(ctx, logger)); err != nil && ctx.Err() == nil {
			logger.Error(err, "exports could not be checked")
		}
	}
}

func (c *Check) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	logger := log.FromContext(ctx)
	all, err := Slices(ctx, c.cache)
	if err != nil {
		return err
	}
	found, err := c.verifier.Verify(ctx, all)
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
	for _, s := range all {
		differences, ok := found.Broken[s.GetUID()]
		if !ok {
			continue
		}
		logger.Info("export is not as it should be", "namespace", s.GetNamespace(), "name", s.GetName(), "differences", differences)
		select {
		case c.broken[s.GetReference().Kind] <- event.GenericEvent{Object: s}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
