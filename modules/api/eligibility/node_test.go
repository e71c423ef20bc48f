package eligibility

import (
	"testing"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

func TestBackendsOfANode(t *testing.T) {
	for name, c := range map[string]struct {
		says []v1alpha1.TargetBackend
		want map[v1alpha1.TargetBackend]Reason
	}{
		"an agent of before": {nil, map[v1alpha1.TargetBackend]Reason{v1alpha1.BackendKernel: "", v1alpha1.BackendSPDK: NoBackend}},
		"the kernel alone":   {[]v1alpha1.TargetBackend{v1alpha1.BackendKernel}, map[v1alpha1.TargetBackend]Reason{v1alpha1.BackendKernel: "", v1alpha1.BackendSPDK: NoBackend}},
		"both":               {[]v1alpha1.TargetBackend{v1alpha1.BackendKernel, v1alpha1.BackendSPDK}, map[v1alpha1.TargetBackend]Reason{v1alpha1.BackendKernel: "", v1alpha1.BackendSPDK: ""}},
	} {
		node := &v1alpha1.RDMAStorageNode{Spec: v1alpha1.RDMAStorageNodeSpec{TargetBackends: c.says}}
		for backend, want := range c.want {
			if got := Backend(Backends(node), backend); got != want {
				t.Errorf("%s: %s is refused with %q, want %q", name, backend, got, want)
			}
		}
	}
}
