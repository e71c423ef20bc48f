package chart

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// TestVolumeAttributesClassesAreOptional: the sidecars read them, and may, exactly when
// it is asked for; older ones ask for an API that the cluster may lack.
func TestVolumeAttributesClassesAreOptional(t *testing.T) {
	for value, want := range map[string]bool{"false": false, "true": true} {
		all := render(t, "--set", "csiController.volumeAttributesClasses="+value)
		gates := map[string]string{}
		for _, w := range workloads(t, all) {
			for _, c := range w.pod.Containers {
				for _, arg := range c.Args {
					if gate, found := strings.CutPrefix(arg, "--feature-gates="); found {
						gates[c.Name] = gate
					}
				}
			}
		}
		on := "VolumeAttributesClass=true"
		if strings.Contains(gates["csi-provisioner"], on) != want || strings.Contains(gates["csi-resizer"], on) != want {
			t.Errorf("%s: feature gates are %v", value, gates)
		}
		if !want && gates["csi-resizer"] != "VolumeAttributesClass=false" {
			t.Errorf("csi-resizer has it by default, and its gates are %q", gates["csi-resizer"])
		}
		may := slices.ContainsFunc(typed[rbacv1.ClusterRole](t, all, "ClusterRole"), func(r rbacv1.ClusterRole) bool {
			return slices.ContainsFunc(r.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "volumeattributesclasses") })
		})
		if may != want {
			t.Errorf("%s: some role may read VolumeAttributesClasses: %t", value, may)
		}
	}
}
