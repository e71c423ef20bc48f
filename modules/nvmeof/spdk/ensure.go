package spdk

import (
	"context"
	"fmt"
	"slices"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/spdk/internal/wire"
)

// Ensure implements nvmeof.Target.
//
// The order makes every prefix safe: who may not write is fenced before anything
// else; hosts are admitted when all namespaces are right; listeners come last.
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
	sub, err := s.read()
	if err != nil {
		return err
	}
	report.Created = sub == nil
	if sub != nil {
		now, err := s.t.withHosts(s.ctx, *sub)
		if err != nil {
			return err
		}
		strangers := without(slices.Concat(now.AllowedHosts, now.ConnectedHosts), want.AllowedHosts)
		if len(strangers) == 0 && len(nvmeof.Diff(want, now)) == 0 {
			return nil
		}
		if report.Fenced, err = s.fenceStrangers(sub, strangers); err != nil {
			return err
		}
	} else if sub, err = s.create(want); err != nil {
		return err
	}
	if err := s.ensureNamespaces(*sub, want); err != nil {
		return err
	}
	if err := checkIdentity(*sub, want); err != nil {
		return err
	}
	if err := s.admit(*sub, want.AllowedHosts); err != nil {
		return err
	}
	if err := s.ensureListeners(*sub, want); err != nil {
		return err
	}
	if report.Fenced != nil {
		if err := s.observe(report.Fenced); err != nil {
			return err
		}
	}
	return s.verify(want)
}

// fenceStrangers makes sure that no host that is not wanted can write, and that no
// other is admitted by a rule.
func (s *session) fenceStrangers(sub *wire.Subsystem, strangers []string) (*nvmeof.Evidence, error) {
	if sub.AllowAnyHost {
		if err := s.forbidAnyHost(); err != nil {
			return nil, err
		}
	}
	if len(strangers) == 0 {
		return nil, nil
	}
	e := &nvmeof.Evidence{NQN: s.nqn, Hosts: strangers}
	return e, s.fence(e)
}

// minNamespaces is the highest NSID that SPDK gives a subsystem room for unless
// told otherwise, maxNamespaces the highest that this package asks for: SPDK takes
// memory for each.
const (
	minNamespaces = 32
	maxNamespaces = 1024
)

// room is the highest NSID that a subsystem must have room for.
func room(want nvmeof.Subsystem) uint32 {
	highest := uint32(minNamespaces)
	for _, ns := range want.Namespaces {
		highest = max(highest, ns.NSID)
	}
	return highest
}

// create makes the subsystem, with nobody on its list and nothing in it.
func (s *session) create(want nvmeof.Subsystem) (*wire.Subsystem, error) {
	highest := room(want)
	if highest > maxNamespaces {
		return nil, fmt.Errorf("%w: namespace %d: the highest NSID is %d", nvmeof.ErrUnsupported, highest, maxNamespaces)
	}
	err := s.do(effect{
		change: nvmeof.Change{Action: nvmeof.ActionCreate, Object: s.nqn},
		method: "nvmf_create_subsystem",
		params: struct {
			NQN           string `json:"nqn"`
			Serial        string `json:"serial_number"`
			Model         string `json:"model_number,omitempty"`
			MaxNamespaces uint32 `json:"max_namespaces"`
		}{s.nqn, want.Serial, want.Model, highest},
		done: func(sub *wire.Subsystem) bool { return sub != nil },
	})
	if err != nil {
		return nil, err
	}
	sub, err := s.read()
	if err == nil && sub == nil {
		err = fmt.Errorf("read back: %w", nvmeof.ErrNotFound)
	}
	return sub, err
}

// checkIdentity refuses what a subsystem cannot change. It comes after the fence
// and the namespaces, which a wrong serial must not keep from being repaired.
func checkIdentity(sub wire.Subsystem, want nvmeof.Subsystem) error {
	for _, v := range []struct{ what, from, to string }{
		{"serial", sub.Serial, want.Serial}, {"model", sub.Model, want.Model},
	} {
		if v.from != v.to && v.to != "" {
			return fmt.Errorf("%w: %s cannot change from %q to %q; remove the subsystem and make it anew", nvmeof.ErrIdentityLocked, v.what, v.from, v.to)
		}
	}
	return nil
}

// verify reads back what was made.
func (s *session) verify(want nvmeof.Subsystem) error {
	sub, err := s.read()
	if err != nil {
		return err
	}
	if sub == nil {
		return fmt.Errorf("read back: %w", nvmeof.ErrNotFound)
	}
	if diff := nvmeof.Diff(want, state(*sub)); len(diff) > 0 {
		return fmt.Errorf("%w: read back differs (someone else changes the target): %s", nvmeof.ErrBusy, diff[0])
	}
	return nil
}

// without returns the sorted, distinct values that are not among those left out.
func without(values, left []string) []string {
	var out []string
	for _, v := range values {
		if !slices.Contains(left, v) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
