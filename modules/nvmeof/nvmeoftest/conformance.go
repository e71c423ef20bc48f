package nvmeoftest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
)

// Env is where the conformance suite runs. The suite makes subsystems below its
// own NQN prefix and removes them; the devices' contents are not written.
type Env struct {
	// Target is the implementation under test.
	Target nvmeof.Target
	// FS reaches the configuration of a kernel's target behind its back, to damage
	// it in many ways.
	FS kernel.FS
	// Damage are the ways, by name, in which another target can be damaged behind its
	// back: each leaves the subsystem not as it is wanted, and one Ensure away from
	// it. Without both, the tests that need damage are skipped with that reason.
	Damage map[string]func(t *testing.T, want nvmeof.Subsystem)
	// Devices are at least two block devices that nobody uses.
	Devices []string
	// Listeners are at least two addresses of this host that nobody uses.
	Listeners []nvmeof.Listener
	// Connect connects a host to a subsystem, and disconnect ends that. Without it
	// the tests that need a connected host are skipped with that reason.
	Connect func(hostNQN, subsystemNQN string, l nvmeof.Listener) (disconnect func() error, err error)
}

const (
	conformancePrefix  = "nqn.2026-01.io.distort.conformance:"
	conformanceTimeout = time.Minute
)

// RunConformance runs the tests that every nvmeof.Target has to pass.
func RunConformance(t *testing.T, env Env) {
	t.Helper()
	if len(env.Devices) < 2 || len(env.Listeners) < 2 {
		t.Fatalf("the suite needs two devices and two listeners, has %d and %d", len(env.Devices), len(env.Listeners))
	}
	s := suite{env}
	t.Run("values", s.values)
	t.Run("life", s.life)
	t.Run("listeners", s.listeners)
	t.Run("sharing", s.sharing)
	t.Run("hosts", s.hosts)
	t.Run("revoke", s.revoke)
	t.Run("revalidate", s.revalidate)
	t.Run("connected", s.connected)
	t.Run("refusals", s.refusals)
	t.Run("repairs", s.repairs)
}

type suite struct{ Env }

func (s suite) ctx(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), conformanceTimeout)
	t.Cleanup(cancel)
	return ctx
}

// subsystem returns a complete value with one namespace on the n-th device,
// and removes it from the target at the end of the test.
func (s suite) subsystem(t *testing.T, name string, device int) nvmeof.Subsystem {
	nqn := conformancePrefix + name
	id := nvmeof.DeriveUUID(nqn)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), conformanceTimeout)
		defer cancel()
		if _, err := s.Target.Remove(ctx, nqn); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return nvmeof.Subsystem{
		NQN: nqn, Serial: nvmeof.DeriveSerial(nqn), Model: "Conformance",
		Namespaces:   []nvmeof.Namespace{{NSID: 1, DevicePath: s.Devices[device], UUID: id, NGUID: id.NGUID()}},
		AllowedHosts: []string{hostName("a")},
		Listeners:    []nvmeof.Listener{s.Listeners[0]},
	}
}

func hostName(name string) string { return "nqn.2026-01.io.distort.conformance:host-" + name }

// ensure brings the target to want and checks that it is there, exactly, and
// that a second call changes nothing.
func (s suite) ensure(t *testing.T, want nvmeof.Subsystem) nvmeof.Report {
	t.Helper()
	report, err := s.Target.Ensure(s.ctx(t), want)
	if err != nil {
		t.Fatalf("Ensure: %v", err)
	}
	s.exact(t, want)
	again, err := s.Target.Ensure(s.ctx(t), want)
	if err != nil {
		t.Fatalf("second Ensure: %v", err)
	}
	if again.Changed() {
		t.Fatalf("second Ensure changed %v", again.Changes)
	}
	return report
}

func (s suite) exact(t *testing.T, want nvmeof.Subsystem) {
	t.Helper()
	got, err := s.Target.Inspect(s.ctx(t), want.NQN)
	if err != nil {
		t.Fatalf("Inspect: %v", err)
	}
	if diff := nvmeof.Diff(want, got); len(diff) > 0 {
		t.Fatalf("target differs: %v", diff)
	}
}

// values: what is ensured is read back with every value.
func (s suite) values(t *testing.T) {
	want := s.subsystem(t, "values", 0)
	report := s.ensure(t, want)
	if !report.Created || report.Repairs() != 0 || !report.Changed() {
		t.Errorf("report of a new subsystem: created %t, repairs %d, changes %d", report.Created, report.Repairs(), len(report.Changes))
	}
	got, err := s.Target.Inspect(s.ctx(t), want.NQN)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Ports) != 1 {
		t.Fatalf("ports: %v", got.Ports)
	}
	expect := nvmeof.State{
		NQN: want.NQN, Serial: want.Serial, Model: want.Model, AllowedHosts: want.AllowedHosts,
		Namespaces: []nvmeof.NamespaceState{{Namespace: want.Namespaces[0], Enabled: true}},
		Ports:      []nvmeof.Port{nvmeof.PortOf(got.Ports[0].ID, want.Listeners[0])},
	}
	expect.ConnectedHosts = got.ConnectedHosts // see connected
	if d := cmp.Diff(expect, got); d != "" {
		t.Errorf("state (-want +got):\n%s", d)
	}
	states, err := s.Target.List(s.ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for i, state := range states {
		if i > 0 && states[i-1].NQN >= state.NQN {
			t.Errorf("list is not sorted: %s before %s", states[i-1].NQN, state.NQN)
		}
		if cmp.Equal(state, got) {
			found++
		}
	}
	if found != 1 {
		t.Errorf("List shows what Inspect shows %d times", found)
	}
}
