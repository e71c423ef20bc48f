package nvmeoftest

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
)

// life: namespaces come, change and go; a subsystem ends for good.
func (s suite) life(t *testing.T) {
	want := s.subsystem(t, "life", 0)
	s.ensure(t, want)

	id := nvmeof.DeriveUUID(want.NQN, "second")
	want.Namespaces = append(want.Namespaces, nvmeof.Namespace{NSID: 7, DevicePath: s.Devices[1], UUID: id, NGUID: id.NGUID()})
	s.ensure(t, want)

	want.Namespaces[0].DevicePath, want.Namespaces[1].DevicePath = want.Namespaces[1].DevicePath, want.Namespaces[0].DevicePath
	s.ensure(t, want)

	want.Namespaces = want.Namespaces[1:]
	s.ensure(t, want)

	want.Namespaces, want.Listeners, want.AllowedHosts = nil, nil, nil
	s.ensure(t, want)

	for i, changed := range []bool{true, false} {
		report, err := s.Target.Remove(s.ctx(t), want.NQN)
		if err != nil {
			t.Fatalf("Remove, call %d: %v", i+1, err)
		}
		if report.Changed() != changed {
			t.Errorf("Remove, call %d changed %v", i+1, report.Changes)
		}
	}
	if _, err := s.Target.Inspect(s.ctx(t), want.NQN); !errors.Is(err, nvmeof.ErrNotFound) {
		t.Errorf("Inspect after Remove: %v, want ErrNotFound", err)
	}
}

// listeners: each listener works, alone, with all others, and exchanged.
func (s suite) listeners(t *testing.T) {
	want := s.subsystem(t, "listeners", 0)
	for _, l := range s.Listeners {
		want.Listeners = []nvmeof.Listener{l}
		s.ensure(t, want)
	}
	want.Listeners = slices.Clone(s.Listeners)
	s.ensure(t, want)
	want.Listeners = want.Listeners[:1]
	s.ensure(t, want)
}

// sharing: subsystems share a listener and leave it to each other.
func (s suite) sharing(t *testing.T) {
	first, second := s.subsystem(t, "sharing-1", 0), s.subsystem(t, "sharing-2", 1)
	s.ensure(t, first)
	s.ensure(t, second)
	ports := func(nqn string) []nvmeof.Port {
		state, err := s.Target.Inspect(s.ctx(t), nqn)
		if err != nil {
			t.Fatal(err)
		}
		return state.Ports
	}
	if a, b := ports(first.NQN), ports(second.NQN); !slices.Equal(a, b) {
		t.Errorf("two ports for one listener: %v and %v", a, b)
	}
	if _, err := s.Target.Remove(s.ctx(t), first.NQN); err != nil {
		t.Fatal(err)
	}
	s.exact(t, second)
	if report, err := s.Target.Ensure(s.ctx(t), second); err != nil || report.Changed() {
		t.Errorf("the other subsystem was disturbed: %v, %v", report.Changes, err)
	}
}

// hosts: the list is exact in both directions, and who leaves it is fenced.
func (s suite) hosts(t *testing.T) {
	want := s.subsystem(t, "hosts", 0)
	want.AllowedHosts = []string{hostName("a"), hostName("b")}
	s.ensure(t, want)

	want.AllowedHosts = []string{hostName("b"), hostName("c")}
	report := s.ensure(t, want)
	if report.Fenced == nil || !report.Fenced.Complete() || !slices.Equal(report.Fenced.Hosts, []string{hostName("a")}) {
		t.Errorf("evidence about the host that left: %v", report.Fenced)
	}

	want.AllowedHosts = append(want.AllowedHosts, hostName("d"))
	if report := s.ensure(t, want); report.Fenced != nil || report.Repairs() > 2 {
		t.Errorf("a host that only joins fences nobody and disables nothing, got %v", report.Changes)
	}
	want.AllowedHosts = nil
	s.ensure(t, want)
}

// revoke: the host is off the list, everything else is as before.
func (s suite) revoke(t *testing.T) {
	want := s.subsystem(t, "revoke", 0)
	want.AllowedHosts = []string{hostName("a"), hostName("b")}
	s.ensure(t, want)
	for call := 1; call <= 2; call++ { // the second one is a repeat after a crash
		begun := time.Now()
		e, err := s.Target.Revoke(s.ctx(t), want.NQN, hostName("a"))
		if err != nil {
			t.Fatalf("Revoke, call %d: %v", call, err)
		}
		if !e.Complete() || e.SubsystemAbsent || len(e.LeftDisabled) > 0 {
			t.Errorf("call %d: evidence %+v", call, e)
		}
		if !slices.Equal(e.AllowedHosts, []string{hostName("b")}) {
			t.Errorf("call %d: allow-list read back %v", call, e.AllowedHosts)
		}
		if !e.DisconnectedAt.IsZero() { // a fence by disconnecting
			if e.CompletedAt.Before(e.DisconnectedAt) || e.DisconnectedAt.Before(begun) {
				t.Errorf("call %d: order of the fence: %+v", call, e)
			}
			continue
		}
		if len(e.Drained) != 1 || e.Drained[0].NSID != 1 || e.Drained[0].FinishedAt.Before(e.Drained[0].StartedAt) {
			t.Fatalf("call %d: drained %+v", call, e.Drained)
		}
		if e.RemovedAt.Before(e.Drained[0].FinishedAt) || e.CompletedAt.Before(e.RemovedAt) {
			t.Errorf("call %d: order of the fence: %+v", call, e)
		}
	}
	want.AllowedHosts = []string{hostName("b")}
	s.exact(t, want)

	e, err := s.Target.Revoke(s.ctx(t), conformancePrefix+"absent", hostName("a"))
	if err != nil || !e.SubsystemAbsent || !e.Complete() {
		t.Errorf("Revoke without a subsystem: %+v, %v", e, err)
	}
}

// revalidate: it changes nothing that can be read, however often it is called,
// and says what is not there.
func (s suite) revalidate(t *testing.T) {
	want := s.subsystem(t, "revalidate", 0)
	s.ensure(t, want)
	for call := 1; call <= 2; call++ {
		if err := s.Target.Revalidate(s.ctx(t), want.NQN, 1); err != nil {
			t.Errorf("call %d: %v", call, err)
		}
	}
	s.exact(t, want)
	if err := s.Target.Revalidate(s.ctx(t), want.NQN, 2); !errors.Is(err, nvmeof.ErrNotFound) {
		t.Errorf("a namespace that is not there: %v, want ErrNotFound", err)
	}
	if err := s.Target.Revalidate(s.ctx(t), conformancePrefix+"absent", 1); !errors.Is(err, nvmeof.ErrNotFound) {
		t.Errorf("a subsystem that is not there: %v, want ErrNotFound", err)
	}
	if err := s.Target.Revalidate(s.ctx(t), "../hosts", 1); !errors.Is(err, nvmeof.ErrInvalid) {
		t.Errorf("a path for an NQN: %v, want ErrInvalid", err)
	}
}

// refusals: errors are the ones that callers branch on.
func (s suite) refusals(t *testing.T) {
	taken := s.subsystem(t, "taken", 0)
	s.ensure(t, taken)
	unserved := s.Listeners[0]
	unserved.Address = netip.MustParseAddr("192.0.2.77") // for documentation only (RFC 5737), no machine's

	for name, tc := range map[string]struct {
		change func(*nvmeof.Subsystem)
		want   error
	}{
		"a value breaks its grammar":         {func(w *nvmeof.Subsystem) { w.Serial = "" }, nvmeof.ErrInvalid},
		"there is no device at the path":     {func(w *nvmeof.Subsystem) { w.Namespaces[0].DevicePath = "/dev/nvmeof-absent" }, nvmeof.ErrDeviceNotFound},
		"another subsystem has the device":   {func(w *nvmeof.Subsystem) { w.Namespaces[0].DevicePath = s.Devices[0] }, nvmeof.ErrDeviceInUse},
		"another subsystem has the identity": {func(w *nvmeof.Subsystem) { w.Namespaces[0].UUID = taken.Namespaces[0].UUID }, nvmeof.ErrDeviceInUse},
		"the listener's address is not ours": {func(w *nvmeof.Subsystem) { w.Listeners[0] = unserved }, nvmeof.ErrAddressNotLocal},
	} {
		t.Run(name, func(t *testing.T) {
			want := s.subsystem(t, "refused", 1)
			good := want
			good.Namespaces, good.Listeners = slices.Clone(want.Namespaces), slices.Clone(want.Listeners)
			tc.change(&want)
			if _, err := s.Target.Ensure(s.ctx(t), want); !errors.Is(err, tc.want) {
				t.Fatalf("error %v, want %v", err, tc.want)
			}
			s.ensure(t, good) // what is left of the failure is repaired
		})
	}
	if _, err := s.Target.Inspect(s.ctx(t), conformancePrefix+"absent"); !errors.Is(err, nvmeof.ErrNotFound) {
		t.Errorf("Inspect of nothing: %v", err)
	}
	if _, err := s.Target.Inspect(s.ctx(t), "../hosts"); !errors.Is(err, nvmeof.ErrInvalid) {
		t.Errorf("Inspect of a path: %v", err)
	}
	s.exact(t, taken)
}
