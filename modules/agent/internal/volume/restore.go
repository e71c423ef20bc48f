package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
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
}

// NewRestore returns a Restore that was not started.
func NewRestore(e *Exporter, f Finder) *Restore {
	return &Restore{exporter: e, finder: f, done: make(chan struct{})}
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
