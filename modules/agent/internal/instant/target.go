package instant

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
)

// Target is the node's target.
func (n *Node) Target() nvmeof.Target { return (*target)(n) }

type target Node

// Ensure implements nvmeof.Target.
func (t *target) Ensure(_ context.Context, want nvmeof.Subsystem) (nvmeof.Report, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	have, known := t.exports[want.NQN]
	if known && nvmeof.Diff(want, stateOf(have)) == nil {
		return nvmeof.Report{}, nil
	}
	t.exports[want.NQN] = want
	return nvmeof.Report{Created: !known, Changes: []nvmeof.Change{{Action: nvmeof.ActionSet, Object: want.NQN}}}, nil
}

// EnsureAll implements nvmeof.Target.
func (t *target) EnsureAll(ctx context.Context, _ time.Duration, want []nvmeof.Subsystem) []error {
	errs := make([]error, len(want))
	for i, w := range want {
		_, errs[i] = t.Ensure(ctx, w)
	}
	return errs
}

// Inspect implements nvmeof.Target.
func (t *target) Inspect(_ context.Context, nqn string) (nvmeof.State, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.exports[nqn]
	if !ok {
		return nvmeof.State{}, nvmeof.ErrNotFound
	}
	return stateOf(s), nil
}

// List implements nvmeof.Target.
func (t *target) List(context.Context) ([]nvmeof.State, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]nvmeof.State, 0, len(t.exports))
	for _, s := range t.exports {
		out = append(out, stateOf(s))
	}
	slices.SortFunc(out, func(a, b nvmeof.State) int { return cmp.Compare(a.NQN, b.NQN) })
	return out, nil
}

// Remove implements nvmeof.Target.
func (t *target) Remove(_ context.Context, nqn string) (nvmeof.Report, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.exports[nqn]; !ok {
		return nvmeof.Report{}, nil
	}
	delete(t.exports, nqn)
	return nvmeof.Report{Changes: []nvmeof.Change{{Action: nvmeof.ActionDelete, Object: nqn}}}, nil
}

// Revoke implements nvmeof.Target.
func (t *target) Revoke(_ context.Context, nqn, hostNQN string) (nvmeof.Evidence, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	e := nvmeof.Evidence{NQN: nqn, Hosts: []string{hostNQN}, CompletedAt: now}
	s, ok := t.exports[nqn]
	if !ok {
		e.SubsystemAbsent = true
		return e, nil
	}
	s.AllowedHosts = slices.DeleteFunc(slices.Clone(s.AllowedHosts), func(h string) bool { return h == hostNQN })
	t.exports[nqn] = s
	e.DisconnectedAt, e.AllowedHosts = now, s.AllowedHosts
	return e, nil
}

// Revalidate implements nvmeof.Target.
func (*target) Revalidate(context.Context, string, uint32) error { return nil }

func stateOf(s nvmeof.Subsystem) nvmeof.State {
	state := nvmeof.State{NQN: s.NQN, Serial: s.Serial, Model: s.Model, AllowedHosts: slices.Sorted(slices.Values(s.AllowedHosts))}
	for _, ns := range s.Namespaces {
		state.Namespaces = append(state.Namespaces, nvmeof.NamespaceState{Namespace: ns, Enabled: true})
	}
	for i, l := range s.Listeners {
		state.Ports = append(state.Ports, nvmeof.PortOf(uint16(i), l))
	}
	return state
}
