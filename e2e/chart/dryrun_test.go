package chart

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestServerAccepts has the API server check every manifest, without effect. It
// does not know ServiceMonitor, which TestMonitors looks at.
func TestServerAccepts(t *testing.T) {
	installed(t)
	seen := map[string]bool{}
	for name, values := range map[string][]string{"defaults": nil, "lab": lab(), "everything": everything, "nothing": nothing} {
		t.Run(name, func(t *testing.T) {
			n := 0
			for _, u := range render(t, values...) {
				if u.GetKind() == "ServiceMonitor" || u.GetAnnotations()["helm.sh/hook"] != "" {
					continue
				}
				n++
				text := fmt.Sprint(u.Object)
				if seen[text] {
					continue
				}
				seen[text] = true
				err := here.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u.DeepCopy()), client.DryRunAll, client.FieldOwner("chart-test"), client.ForceOwnership)
				if err != nil {
					t.Errorf("%s %s: %v", u.GetKind(), u.GetName(), err)
				}
			}
			if n < 30 {
				t.Errorf("only %d manifests were rendered", n)
			}
		})
	}
}
