package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
)

// concurrency is how many subsystems EnsureAll makes at once.
const concurrency = 16

// EnsureAll implements nvmeof.Target.
func (t *Target) EnsureAll(ctx context.Context, each time.Duration, want []nvmeof.Subsystem) []error {
	errs := make([]error, len(want))
	var group sync.WaitGroup
	slots := make(chan struct{}, concurrency)
	for i := range want {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, each)
			defer cancel()
			errs[i] = t.ensureSilently(ctx, want[i])
		})
	}
	group.Wait()
	const listeners = "listeners" // no subsystem's name
	_, err := change(ctx, t, listeners, func(s *session) (struct{}, error) {
		return struct{}{}, s.share(func() error { return s.openAll(want, errs) })
	})
	for i := range want {
		if errs[i] == nil {
			errs[i] = err
		}
	}
	return errs
}

// ensureSilently is Ensure, but opens no listener that the subsystem does not
// have.
func (t *Target) ensureSilently(ctx context.Context, want nvmeof.Subsystem) error {
	if err := want.Validate(); err != nil {
		return err
	}
	now, err := t.Inspect(ctx, want.NQN)
	if err != nil && !errors.Is(err, nvmeof.ErrNotFound) {
		return err
	}
	want.Listeners = slices.DeleteFunc(slices.Clone(want.Listeners), func(l nvmeof.Listener) bool {
		return !slices.ContainsFunc(now.Ports, func(p nvmeof.Port) bool {
			have, ok := p.Listener()
			return ok && have == l
		})
	})
	_, err = t.Ensure(ctx, want)
	return err
}

// openAll opens the listeners of those that have no error so far. Between two of
// them there is nothing but the link: the time between the first and the last is
// that in which hosts of the last are turned away.
func (s *session) openAll(want []nvmeof.Subsystem, errs []error) error {
	ports, err := s.t.readPorts()
	if err != nil {
		return err
	}
	for i := range want {
		if errs[i] != nil {
			continue
		}
		if err := s.ensureListeners(&ports, want[i]); err != nil {
			errs[i] = fmt.Errorf("ensure %s: %w", want[i].NQN, err)
		}
	}
	for i := range want {
		if errs[i] == nil {
			errs[i] = s.verify(want[i])
		}
	}
	return s.ctx.Err()
}
