package nvmeof_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/nvmeof"
)

// state is what a target reads when valid() is exported.
func state() nvmeof.State {
	w := valid()
	s := nvmeof.State{NQN: w.NQN, Serial: w.Serial, Model: w.Model, AllowedHosts: w.AllowedHosts}
	for _, ns := range w.Namespaces {
		s.Namespaces = append(s.Namespaces, nvmeof.NamespaceState{Namespace: ns, Enabled: true})
	}
	for i, l := range w.Listeners {
		s.Ports = append(s.Ports, nvmeof.PortOf(uint16(i), l))
	}
	return s
}

func TestDiff(t *testing.T) {
	b := nvmeof.DeriveUUID("b")
	for name, tc := range map[string]struct {
		change func(*nvmeof.State)
		want   []nvmeof.Difference
	}{
		"equal":         {func(*nvmeof.State) {}, nil},
		"another order": {func(s *nvmeof.State) { s.Ports[0], s.Ports[1] = s.Ports[1], s.Ports[0] }, nil},
		"serial":        {func(s *nvmeof.State) { s.Serial = "X" }, []nvmeof.Difference{{Field: "serial", Want: "DISTORT1", Got: "X"}}},
		"model":         {func(s *nvmeof.State) { s.Model = "X" }, []nvmeof.Difference{{Field: "model", Want: "DISTORT volume", Got: "X"}}},
		"any host":      {func(s *nvmeof.State) { s.AllowAnyHost = true }, []nvmeof.Difference{{Field: "allowAnyHost", Want: "false", Got: "true"}}},
		"hosts": {func(s *nvmeof.State) { s.AllowedHosts = []string{"nqn.2026-01.io.distort:host-a", "x"} }, []nvmeof.Difference{
			{Field: "allowedHosts", Want: "nqn.2026-01.io.distort:host-b", Got: "absent"}, {Field: "allowedHosts", Want: "absent", Got: "x"}}},
		"listeners": {func(s *nvmeof.State) { s.Ports[0].Transport = "loop" }, []nvmeof.Difference{
			{Field: "listeners", Want: "tcp://10.0.0.1:4420", Got: "absent"}, {Field: "listeners", Want: "absent", Got: "port 0 (loop ipv4 10.0.0.1 4420)"}}},
		"namespace": {func(s *nvmeof.State) {
			s.Namespaces[0] = nvmeof.NamespaceState{Namespace: nvmeof.Namespace{NSID: 1, DevicePath: "/x", UUID: b, NGUID: b.NGUID()}}
		}, []nvmeof.Difference{
			{Field: "namespaces[1].devicePath", Want: "/dev/nvme1n1p1", Got: "/x"},
			{Field: "namespaces[1].uuid", Want: nvmeof.DeriveUUID("a").String(), Got: b.String()},
			{Field: "namespaces[1].nguid", Want: nvmeof.DeriveUUID("a").NGUID().String(), Got: b.NGUID().String()},
			{Field: "namespaces[1].enabled", Want: "true", Got: "false"},
		}},
		"namespace under another nsid": {func(s *nvmeof.State) { s.Namespaces[1].NSID = 9 }, []nvmeof.Difference{
			{Field: "namespaces[2]", Want: "/dev/zvol/tank/a b", Got: "absent"}, {Field: "namespaces[9]", Want: "absent", Got: "/dev/zvol/tank/a b"}}},
		"two directories for one nsid": {func(s *nvmeof.State) { s.Namespaces = append(s.Namespaces, s.Namespaces[0]) }, []nvmeof.Difference{
			{Field: "namespaces[1]", Want: "absent", Got: "a second directory for this nsid"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := state()
			tc.change(&s)
			if d := cmp.Diff(tc.want, nvmeof.Diff(valid(), s)); d != "" {
				t.Errorf("differences (-want +got):\n%s", d)
			}
		})
	}
}

func TestDiffLeavesAModelThatNobodyAskedFor(t *testing.T) {
	want, got := valid(), state()
	want.Model, got.Model = "", "Linux"
	if d := nvmeof.Diff(want, got); len(d) > 0 {
		t.Errorf("differences %v", d)
	}
}

func TestReportCountsRepairs(t *testing.T) {
	changes := []nvmeof.Change{{Action: nvmeof.ActionSet, Object: "x", From: "a", To: "b"}, {Action: nvmeof.ActionLink, Object: "y"}}
	for name, tc := range map[string]struct {
		report  nvmeof.Report
		changed bool
		repairs int
	}{
		"nothing":  {nvmeof.Report{}, false, 0},
		"new":      {nvmeof.Report{Created: true, Changes: changes}, true, 0},
		"repaired": {nvmeof.Report{Changes: changes}, true, 2},
	} {
		if tc.report.Changed() != tc.changed || tc.report.Repairs() != tc.repairs {
			t.Errorf("%s: changed %t, repairs %d", name, tc.report.Changed(), tc.report.Repairs())
		}
	}
	if got := changes[0].String() + "; " + changes[1].String(); got != `set x: "a" -> "b"; link y` {
		t.Errorf("changes read %s", got)
	}
}

func TestEvidenceReadsAsOneLine(t *testing.T) {
	at := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	e := nvmeof.Evidence{NQN: "nqn.a", Hosts: []string{"nqn.h"}}
	for _, tc := range []struct {
		change func()
		want   string
	}{
		{func() {}, "fence of nqn.h on nqn.a is not complete"},
		{func() {
			e.Drained = []nvmeof.Drain{{NSID: 1, DevicePath: "/dev/a", StartedAt: at, FinishedAt: at.Add(1500 * time.Millisecond)}}
			e.AllowedHosts = []string{"nqn.i"}
			e.RemovedAt, e.CompletedAt = at.Add(1600*time.Millisecond), at.Add(2*time.Second)
		}, "nqn.a: drained [nsid 1 (/dev/a) in 1.5s], removed with all controllers at 2026-11-30T04:00:01.6Z, " +
			"made again without nqn.h, hosts read back [nqn.i] at 2026-11-30T04:00:02Z"},
		{func() { e.SubsystemAbsent = true }, "nqn.a: no subsystem, nothing to fence for nqn.h at 2026-11-30T04:00:02Z"},
	} {
		tc.change()
		if e.String() != tc.want {
			t.Errorf("got  %s\nwant %s", e, tc.want)
		}
	}
}
