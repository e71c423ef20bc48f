// Package together makes many subsystems before any of them is listened for, as
// nvmeof.Target.EnsureAll demands.
package together

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
)

// concurrency is how many subsystems are worked on at once.
const concurrency = 16

// Silently ensures all subsystems but for the listeners that they do not have
// yet, each within the time given. The errors are in the order of want.
func Silently(ctx context.Context, each time.Duration, target nvmeof.Target, want []nvmeof.Subsystem) []error {
	return Each(len(want), func(i int) error {
		ctx, cancel := context.WithTimeout(ctx, each)
		defer cancel()
		return silently(ctx, target, want[i])
	})
}

// Each runs do for 0 to n-1, some at once, and returns what each answered.
func Each(n int, do func(i int) error) []error {
	errs := make([]error, n)
	var group sync.WaitGroup
	slots := make(chan struct{}, concurrency)
	for i := range n {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(i)
		})
	}
	group.Wait()
	return errs
}

func silently(ctx context.Context, target nvmeof.Target, want nvmeof.Subsystem) error {
	if err := want.Validate(); err != nil {
		return err
	}
	now, err := target.Inspect(ctx, want.NQN)
	if err != nil && !errors.Is(err, nvmeof.ErrNotFound) {
		return err
	}
	want.Listeners = slices.DeleteFunc(slices.Clone(want.Listeners), func(l nvmeof.Listener) bool {
		return !slices.ContainsFunc(now.Ports, func(p nvmeof.Port) bool {
			have, ok := p.Listener()
			return ok && have == l
		})
	})
	_, err = target.Ensure(ctx, want)
	return err
}
