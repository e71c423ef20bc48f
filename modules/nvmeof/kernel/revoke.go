package kernel

import (
	"context"
	"fmt"

	"github.com/distort-io/distort/modules/nvmeof"
)

// Revoke implements nvmeof.Target, in the order of design.md §6: unlink the
// host, drain the namespaces, end the controllers, enable again.
func (t *Target) Revoke(ctx context.Context, nqn, hostNQN string) (nvmeof.Evidence, error) {
	for _, name := range []string{nqn, hostNQN} {
		if _, err := nvmeof.ParseNQN(name); err != nil {
			return nvmeof.Evidence{}, err
		}
	}
	return change(ctx, t, func(s *session) (nvmeof.Evidence, error) {
		e, err := s.revoke(nqn, hostNQN)
		if err != nil {
			err = fmt.Errorf("revoke %s on %s: %w", hostNQN, nqn, err)
		}
		return e, err
	})
}

func (s *session) revoke(nqn, hostNQN string) (nvmeof.Evidence, error) {
	sub, _, err := s.t.load(nqn)
	if err != nil {
		return nvmeof.Evidence{NQN: nqn, Hosts: []string{hostNQN}}, err
	}
	if sub == nil {
		return nvmeof.Evidence{NQN: nqn, Hosts: []string{hostNQN}, SubsystemAbsent: true, CompletedAt: s.t.now()}, s.forgetHost(hostNQN)
	}
	f := s.newFence(sub, []string{hostNQN})
	if sub.passthru {
		return f.evidence, fmt.Errorf("%w: subsystem passes a whole controller through, which cannot be drained", nvmeof.ErrUnsupported)
	}
	enabled := map[string]bool{}
	for _, ns := range sub.namespaces {
		enabled[ns.dir] = ns.Enabled
	}
	for _, stage := range []func() error{f.unlink, f.drain, f.disconnect} {
		if err := stage(); err != nil {
			return f.evidence, err
		}
	}
	for _, ns := range sub.namespaces {
		back := enabled[ns.dir] && s.enable(ns) == nil
		if err := s.ctx.Err(); err != nil {
			return f.evidence, err
		}
		// A device that went away cannot be enabled and cannot be written
		// either: the fence stands, Ensure will name the device.
		if !back {
			f.evidence.LeftDisabled = append(f.evidence.LeftDisabled, ns.NSID)
		}
	}
	if err := f.forgetHosts(); err != nil {
		return f.evidence, err
	}
	f.evidence.CompletedAt = s.t.now()
	return f.evidence, nil
}
