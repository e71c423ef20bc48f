package kernel

import (
	"context"
	"fmt"
	"slices"

	"github.com/distort-io/distort/modules/nvmeof"
)

// Remove implements nvmeof.Target. Listeners go first, so that nobody connects
// any more; then the namespaces are drained, so that nothing is in flight to
// the devices when Remove answers. At the end it sweeps up what serves nobody:
// ports within the range of IDs, and hosts without a link and without a key. A
// call that was killed half way leaves such things, and only a sweep finds them.
func (t *Target) Remove(ctx context.Context, nqn string) (nvmeof.Report, error) {
	if _, err := nvmeof.ParseNQN(nqn); err != nil {
		return nvmeof.Report{}, err
	}
	return change(ctx, t, func(s *session) (nvmeof.Report, error) {
		err := s.remove(nqn)
		if err != nil {
			err = fmt.Errorf("remove %s: %w", nqn, err)
		}
		return nvmeof.Report{Changes: s.changes}, err
	})
}

func (s *session) remove(nqn string) error {
	sub, ports, err := s.t.load(nqn)
	if err != nil {
		return err
	}
	if sub != nil {
		if err := s.removeSubsystem(sub, ports); err != nil {
			return err
		}
	}
	if err := s.sweep(ports); err != nil {
		return err
	}
	names, err := s.t.subsystemNames()
	if err != nil {
		return err
	}
	if slices.Contains(names, nqn) {
		return fmt.Errorf("%w: subsystem is there again (someone else changes the target)", nvmeof.ErrBusy)
	}
	return nil
}

func (s *session) removeSubsystem(sub *subsystem, ports []port) error {
	for i := range ports {
		if link, linked := ports[i].linkOf(sub.NQN); linked {
			if err := s.leavePort(&ports[i], link); err != nil {
				return err
			}
		}
	}
	for i := range sub.namespaces {
		if err := s.removeNamespace(&sub.namespaces[i]); err != nil {
			return err
		}
	}
	for name, host := range sub.hostLinks {
		if err := s.unlink(join(sub.dir, "allowed_hosts", name)); err != nil {
			return err
		}
		if err := s.forgetHost(host); err != nil {
			return err
		}
	}
	return s.rmdir(sub.dir)
}

func (s *session) sweep(ports []port) error {
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
