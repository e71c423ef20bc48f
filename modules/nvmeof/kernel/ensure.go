package kernel

import (
	"context"
	"fmt"
	"slices"

	"github.com/distort-io/distort/modules/nvmeof"
)

// Ensure implements nvmeof.Target.
//
// The order makes every prefix safe, so that a kill between any two effects
// leaves nothing that the next call does not see: who may not write is fenced
// before anything else; identities are pinned before a namespace is enabled;
// hosts are admitted when all namespaces are right; ports come last.
func (t *Target) Ensure(ctx context.Context, want nvmeof.Subsystem) (nvmeof.Report, error) {
	if err := want.Validate(); err != nil {
		return nvmeof.Report{}, err
	}
	return change(ctx, t, want.NQN, func(s *session) (nvmeof.Report, error) {
		var report nvmeof.Report
		err := s.ensure(want, &report)
		report.Changes = s.changes
		if err != nil {
			err = fmt.Errorf("ensure %s: %w", want.NQN, err)
		}
		return report, err
	})
}

func (s *session) ensure(want nvmeof.Subsystem, report *nvmeof.Report) error {
	sub, _, err := s.t.load(want.NQN)
	if err != nil {
		return err
	}
	if sub != nil {
		if sub.passthru {
			return fmt.Errorf("%w: subsystem passes a whole controller through", nvmeof.ErrUnsupported)
		}
		if len(nvmeof.Diff(want, sub.State)) == 0 {
			return nil
		}
	}
	report.Created = sub == nil
	if report.Fenced, err = s.fenceStrangers(&sub, want); err != nil {
		return err
	}
	if sub == nil {
		if sub, err = s.makeSubsystem(want.NQN); err != nil {
			return err
		}
	}
	if err := s.ensureNamespaces(sub, want); err != nil {
		return err
	}
	if err := s.ensureIdentity(sub, want); err != nil {
		return err
	}
	if err := s.share(func() error {
		if err := s.admit(sub, want.AllowedHosts); err != nil {
			return err
		}
		ports, err := s.t.readPorts()
		if err != nil {
			return err
		}
		return s.ensureListeners(&ports, want)
	}); err != nil {
		return err
	}
	if report.Fenced != nil {
		if err := s.observe(report.Fenced); err != nil {
			return err
		}
	}
	return s.verify(want)
}

// fenceStrangers makes sure that no host that is not wanted can write: it takes
// the whole subsystem away, with every controller it has, and sub is nil then.
//
// There is no memory but the kernel's own state. What takeDown leaves when it is
// killed has a mark, and the next call fences again before it enables anything.
func (s *session) fenceStrangers(sub **subsystem, want nvmeof.Subsystem) (*nvmeof.Evidence, error) {
	if *sub == nil {
		return nil, nil
	}
	e := &nvmeof.Evidence{NQN: want.NQN}
	for _, host := range (*sub).AllowedHosts {
		if !slices.Contains(want.AllowedHosts, host) {
			e.Hosts = append(e.Hosts, host)
		}
	}
	if len(e.Hosts) == 0 && !(*sub).AllowAnyHost && !(*sub).unfinished() {
		return nil, nil
	}
	var err error
	if e.Drained, err = s.takeDown(*sub); err != nil {
		return nil, err
	}
	*sub = nil
	e.RemovedAt = s.t.now()
	if len(e.Hosts) == 0 {
		return nil, nil
	}
	return e, s.share(func() error {
		for _, host := range e.Hosts {
			if err := s.forgetHost(host); err != nil {
				return err
			}
		}
		return nil
	})
}

// ensureIdentity writes serial and model. It comes after the fence and the
// namespaces, because a serial that is locked must not keep those from being
// repaired; a subsystem that is new has no port yet, so nobody has read it.
func (s *session) ensureIdentity(sub *subsystem, want nvmeof.Subsystem) error {
	if err := s.set(join(sub.dir, "attr_serial"), sub.Serial, want.Serial); err != nil {
		return lockedIdentity("serial", sub.Serial, want.Serial, err)
	}
	if want.Model == "" {
		return nil
	}
	if err := s.set(join(sub.dir, "attr_model"), sub.Model, want.Model); err != nil {
		return lockedIdentity("model", sub.Model, want.Model, err)
	}
	return nil
}

// verify reads back what was made: only what can be read is there.
func (s *session) verify(want nvmeof.Subsystem) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	sub, _, err := s.t.load(want.NQN)
	if err != nil {
		return err
	}
	if sub == nil {
		return fmt.Errorf("read back: %w", nvmeof.ErrNotFound)
	}
	if diff := nvmeof.Diff(want, sub.State); len(diff) > 0 {
		return fmt.Errorf("%w: read back differs (someone else changes the target): %s", nvmeof.ErrBusy, diff[0])
	}
	return nil
}
