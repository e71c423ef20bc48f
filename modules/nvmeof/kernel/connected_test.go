package kernel_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/nvmeof/kernel"
)

// Fault DV10 needs to know who is connected, not only who may connect.
func TestConnectedHostsAreShownWhereTheKernelShowsThem(t *testing.T) {
	k := newKernel()
	ensure(t, k, export(hostOld, hostToo))
	connected := func(target *kernel.Target) []string {
		t.Helper()
		state, err := target.Inspect(t.Context(), volume)
		if err != nil {
			t.Fatal(err)
		}
		return state.ConnectedHosts
	}
	shown := kernel.New(k, kernel.WithDebugFS(k.Debug()))
	if got := connected(shown); got == nil || len(got) != 0 {
		t.Errorf("nobody is connected, shown is %#v", got)
	}
	for range 2 {
		if _, err := k.Connect(hostOld, volume, portA); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{hostOld}, connected(shown)); diff != "" {
		t.Errorf("connected (-want +got):\n%s", diff)
	}
	if got := connected(newTarget(k)); got != nil {
		t.Errorf("without debugfs %v are shown", got)
	}
	absent := kernel.New(k, kernel.WithDebugFS(kernel.OS(t.TempDir()+"/nvmet")))
	if got := connected(absent); got != nil {
		t.Errorf("a kernel without the directory shows %#v", got)
	}
	if _, err := shown.Revoke(t.Context(), volume, hostOld); err != nil {
		t.Fatal(err)
	}
	if got := connected(shown); len(got) != 0 {
		t.Errorf("after the fence %v are connected", got)
	}
}
