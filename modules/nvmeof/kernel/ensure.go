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
	return change(ctx, t, func(s *session) (nvmeof.Report, error) {
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
	sub, ports, err := s.t.load(want.NQN)
	if err != nil {
		return err
	}
	if sub == nil {
		report.Created = true
		if err := s.mkdir(join("subsystems", want.NQN)); err != nil {
			return err
		}
		if sub, err = s.t.readSubsystem(want.NQN, ports); err != nil {
			return err
		}
	}
	if sub.passthru {
		return fmt.Errorf("%w: subsystem passes a whole controller through", nvmeof.ErrUnsupported)
	}
	if report.Fenced, err = s.fenceStrangers(sub, want); err != nil {
		return err
	}
	if err := s.ensureNamespaces(sub, want); err != nil {
		return err
	}
	if err := s.ensureIdentity(sub, want); err != nil {
		return err
	}
	if err := s.admit(sub, want.AllowedHosts); err != nil {
		return err
	}
	if err := s.ensureListeners(ports, want); err != nil {
		return err
	}
	if len(s.changes) == 0 {
		return nil
	}
	return s.verify(want)
}

// fenceStrangers makes sure that no host that is not wanted can write.
//
// There is no memory but the kernel's own state, so the namespaces are disabled
// before the host is unlinked: a disabled namespace is the mark of a fence that
// was not finished (or of an export that was never finished, where a fence does
// no harm), and the next call fences again before it enables anything.
//
// It also fences before the first host enters an empty allow-list. A Revoke
// that died after it took the last host off leaves that host connected and
// nothing to see; nobody who is allowed is disturbed.
func (s *session) fenceStrangers(sub *subsystem, want nvmeof.Subsystem) (*nvmeof.Evidence, error) {
	var strangers []string
	for _, host := range sub.AllowedHosts {
		if !slices.Contains(want.AllowedHosts, host) {
			strangers = append(strangers, host)
		}
	}
	unlink := len(strangers) > 0 || sub.AllowAnyHost
	unfinished := slices.ContainsFunc(sub.namespaces, func(ns namespace) bool { return !ns.Enabled })
	first := len(sub.AllowedHosts) == 0 && len(want.AllowedHosts) > 0 && len(sub.namespaces) > 0
	if !unlink && !unfinished && !first {
		return nil, nil
	}
	f := s.newFence(sub, strangers)
	if err := f.drain(); err != nil {
		return nil, err
	}
	if unlink {
		if err := f.unlink(); err != nil {
			return nil, err
		}
		if err := f.drain(); err != nil { // the order of design.md §6, whatever the mark did
			return nil, err
		}
	}
	if err := f.disconnect(); err != nil {
		return nil, err
	}
	if err := f.forgetHosts(); err != nil {
		return nil, err
	}
	if len(strangers) == 0 {
		return nil, nil
	}
	f.evidence.CompletedAt = s.t.now()
	return &f.evidence, nil
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
