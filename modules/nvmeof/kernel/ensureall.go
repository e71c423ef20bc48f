package kernel

import (
	"context"
	"fmt"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/internal/together"
)

// EnsureAll implements nvmeof.Target.
func (t *Target) EnsureAll(ctx context.Context, each time.Duration, want []nvmeof.Subsystem) []error {
	errs := together.Silently(ctx, each, t, want)
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
