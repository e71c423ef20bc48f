package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const (
	// restoreConcurrency is how many slices are looked for at once.
	restoreConcurrency = 8
	// restoreTimeout bounds the search for one slice, and the making of one export:
	// a drive that hangs must not keep the volumes of the others away.
	restoreTimeout = 30 * time.Second
)

// Restore makes, before anything else is done to the targets, the exports that
// were vouched for and that no host can reach: after a reboot of the node all of
// them. It makes them together, because a host that reconnects and finds an
// address without its volume gives the volume up for ever (export.Backend,
// EnsureAll). What it cannot make is left to the reconcilers, which say why.
type Restore struct {
	exporter *Exporter
	finder   Finder
	done     chan struct{}
	turn     chan struct{} // of again
}

// NewRestore returns a Restore that was not started. From now on the Exporter has it
// make again what a backend forgets later.
func NewRestore(e *Exporter, f Finder) *Restore {
	r := &Restore{exporter: e, finder: f, done: make(chan struct{}), turn: make(chan struct{}, 1)}
	e.remake = r.again
	return r
}

// Done is closed when Start has done what it could.
func (r *Restore) Done() <-chan struct{} { return r.done }

// Await waits for Done; a nil channel is nothing to wait for.
func Await(ctx context.Context, done <-chan struct{}) error {
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Start implements manager.Runnable. It never fails.
func (r *Restore) Start(ctx context.Context) error {
	defer close(r.done)
	if err := r.run(ctx); err != nil {
		log.FromContext(ctx).Error(err, "not every export could be restored; each is tried by itself")
	}
	return nil
}

func (r *Restore) run(ctx context.Context) error {
	all, err := Slices(ctx, r.exporter.cache)
	if err != nil {
		return err
	}
	var errs []error
	for name, backend := range r.exporter.backends {
		seen, err := backend.Observe(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		// What was not vouched for is the reconciler's: it looks at more than this.
		missing := slices.DeleteFunc(slices.Clone(all), func(s v1alpha1.Slice) bool {
			return s.GetTargetBackend() != name || !s.GetDeletionTimestamp().IsZero() || seen.Serving(s.GetUID()) ||
				!meta.IsStatusConditionTrue(s.GetConditions(), v1alpha1.ConditionExported)
		})
		errs = append(errs, r.restore(ctx, backend, missing))
	}
	return errors.Join(errs...)
}

// again restores the exports of a backend that was started anew under this agent.
// Reconcilers are at work: the volumes stay locked from the reading of what they have
// to be until they are. What cannot be made is left to the reconcilers.
func (r *Restore) again(ctx context.Context, backend export.Backend) error {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if fresh, err := backend.Fresh(ctx); err != nil || !fresh {
		return err // somebody else was first
	}
	all, err := Slices(ctx, r.exporter.cache)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(all, func(s v1alpha1.Slice) bool {
		return s.GetTargetBackend() != backend.Name() || !s.GetDeletionTimestamp().IsZero() || !exportable(s.GetConditions())
	})
	slices.SortFunc(missing, func(a, b v1alpha1.Slice) int { return strings.Compare(string(a.GetUID()), string(b.GetUID())) })
	for _, s := range missing {
		unlock, err := r.exporter.locks.Lock(ctx, s.GetUID())
		if err != nil {
			return err
		}
		defer unlock()
	}
	if err := r.restore(ctx, backend, missing); err != nil {
		log.FromContext(ctx).Error(err, "not every export could be made again; each is tried by itself", "backend", backend.Name())
	}
	return nil
}

// exportable tells whether the volume was exported and nothing but its target keeps
// it from being so: while a target is away, reconcilers withdraw what they vouched for.
func exportable(conditions []metav1.Condition) bool {
	is := func(kind string, reasons ...string) bool {
		c := meta.FindStatusCondition(conditions, kind)
		return c != nil && (c.Status == metav1.ConditionTrue || slices.Contains(reasons, c.Reason))
	}
	return is(v1alpha1.ConditionExported, v1alpha1.ReasonExportFailed) &&
		is(v1alpha1.ConditionProvisioned, v1alpha1.ReasonCarveFailed) && is(v1alpha1.ConditionClaimAuthorized, v1alpha1.ReasonDeviceMissing)
}

func (r *Restore) restore(ctx context.Context, backend export.Backend, missing []v1alpha1.Slice) error {
	if len(missing) == 0 {
		return nil
	}
	found := make([]*export.Volume, len(missing))
	errs := make([]error, len(missing))
	var group sync.WaitGroup
	slots := make(chan struct{}, restoreConcurrency)
	for i := range missing {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			found[i], errs[i] = r.find(ctx, missing[i])
		})
	}
	group.Wait()
	var volumes []export.Volume
	for _, v := range found {
		if v != nil {
			volumes = append(volumes, *v)
		}
	}
	return errors.Join(append(errs, backend.EnsureAll(ctx, restoreTimeout, volumes)...)...)
}

// find is what the export of the volume has to be. An export whose slice the
// node itself uses is not made.
func (r *Restore) find(ctx context.Context, s v1alpha1.Slice) (*export.Volume, error) {
	named := func(err error) error { return fmt.Errorf("%s: %w", Name(s), err) }
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	path, err := r.finder.Device(ctx, s)
	if err != nil {
		return nil, named(err)
	}
	if err := r.exporter.unused(path); err != nil {
		return nil, named(err)
	}
	v, err := r.exporter.desired(ctx, s, path, r.exporter.portals)
	if err != nil {
		return nil, named(err)
	}
	return &v, nil
}
