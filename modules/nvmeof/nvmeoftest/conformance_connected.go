package nvmeoftest

import (
	"context"
	"slices"
	"testing"
	"time"
)

// connected: who is connected is shown where the target can show it, is gone
// after Revoke, and is not let in again.
func (s suite) connected(t *testing.T) {
	if s.Connect == nil {
		t.Skip("no host can be connected here")
	}
	want := s.subsystem(t, "connected", 0)
	s.ensure(t, want)
	host := want.AllowedHosts[0]
	if _, err := s.Connect(hostName("x"), want.NQN, want.Listeners[0]); err == nil {
		t.Error("a host that is not on the list was connected")
	}
	disconnect, err := s.Connect(host, want.NQN, want.Listeners[0])
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() {
		if err := disconnect(); err != nil {
			t.Errorf("disconnect: %v", err)
		}
	})
	seen := func() []string {
		state, err := s.Target.Inspect(s.ctx(t), want.NQN)
		if err != nil {
			t.Fatalf("Inspect: %v", err)
		}
		return state.ConnectedHosts
	}
	shown := seen() != nil
	switch {
	case !shown:
		t.Log("this target does not show who is connected")
	case !slices.Contains(seen(), host):
		t.Errorf("connected are %v, without %s", seen(), host)
	}
	if _, err := s.Target.Revoke(s.ctx(t), want.NQN, host); err != nil {
		t.Fatalf("Revoke: %v", err)
	}
	if shown {
		s.eventually(t, "the host's controller ends", func() bool { return len(seen()) == 0 })
	}
	if again, err := s.Connect(host, want.NQN, want.Listeners[0]); err == nil {
		t.Error("the revoked host was connected again")
		_ = again()
	}
}

// eventually looks until the kernel has done what it does on its own.
func (s suite) eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), conformanceTimeout)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s", what, conformanceTimeout)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
