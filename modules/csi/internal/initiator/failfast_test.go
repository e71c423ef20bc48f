package initiator_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/csi/internal/initiator"
)

// ST19: a host that goes down does not wait for ever, while one that stays may.
func TestFailFastShortensOurTimeoutsOnly(t *testing.T) {
	const other = "nqn.2014-08.org.nvmexpress:uuid:07b7028d-b822-404b-9cde-ee475895701b"
	const nqn4 = "nqn.2026-02.io.distort:volume-t4"
	patient, quick, stubborn, foreign := exported(), exported(), exported(), exported()
	quick.NQN, quick.UUID = nqn2, uuid2
	stubborn.NQN, stubborn.UUID = nqn3, "33333333-0000-4000-8000-000000000003"
	foreign.NQN, foreign.UUID, foreign.AllowedHosts = nqn4, "44444444-0000-4000-8000-000000000004", []string{other}
	k, i := onKernel(t, patient, quick, stubborn, foreign)
	connect := func(nqn string, p initiator.Params) {
		asked := target(portalA)
		asked.NQN, asked.Params = nqn, p
		must(t, i.Connect(t.Context(), asked))
	}
	connect(nqn1, initiator.Params{})
	connect(nqn2, initiator.Params{ReconnectDelay: number(1), CtrlLossTimeout: number(3), FastIOFailTimeout: number(2)})
	connect(nqn3, initiator.Params{ReconnectDelay: number(600)})
	must(t, k.SetState(nqn3, "connecting")) // its next attempt may be ten minutes away
	_, err := k.Connect("nqn=" + nqn4 + ",transport=tcp,traddr=10.77.0.10,trsvcid=4420,hostnqn=" + other + ",hostid=07b7028d-b822-404b-9cde-ee475895701b")
	must(t, err)

	n, err := i.FailFast(t.Context(), hostNQN)
	if err != nil || n != 3 {
		t.Fatalf("%d connections, %v, want 3", n, err)
	}
	if k.Controllers(nqn3) != 0 {
		t.Error("a controller stayed that would try again in ten minutes")
	}
	for attribute, want := range map[string][]string{
		"reconnect_delay": {"5", "1", "10"}, "ctrl_loss_tmo": {"10", "3", "600"}, "fast_io_fail_tmo": {"5", "2", "off"},
		"state": {"live", "live", "live"},
	} {
		if diff := cmp.Diff(want, shown(t, k, attribute)); diff != "" {
			t.Errorf("%s (patient, quick, foreign): %s", attribute, diff)
		}
	}

	// What is connected or looked at from now on does not undo it.
	must(t, i.Disconnect(t.Context(), nqn2))
	connect(nqn2, initiator.Params{})
	must(t, i.Maintain(t.Context(), target(portalA)))
	if diff := cmp.Diff([]string{"10", "600", "10"}, shown(t, k, "ctrl_loss_tmo")); diff != "" {
		t.Error(diff)
	}
	// A driver that starts anew, because the shutdown was called off, does.
	must(t, withGrace(k, 0).Maintain(t.Context(), target(portalA)))
	if got := shown(t, k, "ctrl_loss_tmo")[0]; got != "off" {
		t.Errorf("ctrl_loss_tmo %s after a restart, want off", got)
	}
}
