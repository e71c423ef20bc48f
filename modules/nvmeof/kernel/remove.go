package kernel

import (
	"context"
	"fmt"

	"github.com/distort-io/distort/modules/nvmeof"
)

// Remove implements nvmeof.Target. The subsystem goes in the order of the fence,
// so that nothing is in flight to the devices when Remove answers. At the end it
// sweeps up what serves nobody: ports within the range of IDs, and hosts without
// a link and without a key. A call that was killed half way leaves such things,
// and only a sweep finds them.
func (t *Target) Remove(ctx context.Context, nqn string) (nvmeof.Report, error) {
	if _, err := nvmeof.ParseNQN(nqn); err != nil {
		return nvmeof.Report{}, err
	}
	return change(ctx, t, nqn, func(s *session) (nvmeof.Report, error) {
		err := s.remove(nqn)
		if err != nil {
			err = fmt.Errorf("remove %s: %w", nqn, err)
		}
		return nvmeof.Report{Changes: s.changes}, err
	})
}

func (s *session) remove(nqn string) error {
	sub, _, err := s.t.load(nqn)
	if err != nil {
		return err
	}
	if sub != nil {
		if _, err := s.takeDown(sub); err != nil {
			return err
		}
	}
	if err := s.share(s.sweep); err != nil {
		return err
	}
	return s.absent(nqn)
}

func (s *session) sweep() error {
	ports, err := s.t.readPorts()
	if err != nil {
		return err
	}
	for _, p := range ports {
		if s.t.ownUnused(p) {
			if err := s.rmdir(p.dir); err != nil {
				return err
			}
		}
	}
	r := reader{t: s.t}
	for _, host := range r.names("hosts") {
		if err := s.forgetHost(host); err != nil {
			return err
		}
	}
	return r.err
}
