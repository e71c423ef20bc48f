package chart

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

const spdkSocket = "/run/distort-spdk/spdk.sock"

// TestSPDKModes: who runs nvmf_tgt, with what, and how the agent finds it.
func TestSPDKModes(t *testing.T) {
	for name, tc := range map[string]struct {
		values       []string
		agent, never []string // arguments of the agent
		target       []string // the external target's command; nil: there is none
		pages        string   // of the agent's limits
	}{
		"none": {never: []string{"--spdk-"}},
		"external": {
			values: []string{"--set", "spdk.mode=external,spdk.coreMask=0x3,spdk.memoryMiB=1024,images.spdk.repository=registry.example/spdk,images.spdk.tag=v26.05"},
			agent:  []string{"--spdk-socket=" + spdkSocket, "--spdk-queues=576"}, never: []string{"--spdk-target", "--spdk-core-mask"},
			target: []string{"/usr/local/bin/nvmf_tgt", "-r", spdkSocket, "-m", "0x3", "-s", "1024"},
		},
		"external, in interrupt mode": {
			values: []string{"--set", "spdk.mode=external,spdk.interruptMode=true,images.spdk.repository=registry.example/spdk,images.spdk.tag=v26.05"},
			agent:  []string{"--spdk-socket=" + spdkSocket},
			target: []string{"/usr/local/bin/nvmf_tgt", "-r", spdkSocket, "-m", "0x1", "-s", "512", "--interrupt-mode"},
		},
		"managed": {
			values: []string{"--set", "spdk.mode=managed,spdk.interruptMode=true"},
			agent: []string{"--spdk-socket=" + spdkSocket, "--spdk-target=/usr/local/bin/nvmf_tgt", "--spdk-core-mask=0x1", "--spdk-memory=512",
				"--spdk-queues=576", "--spdk-interrupt-mode=true"},
			pages: "512Mi",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var target *appsv1.DaemonSet
			for _, d := range typed[appsv1.DaemonSet](t, render(t, tc.values...), "DaemonSet") {
				switch d.Name {
				case "distort-spdk":
					target = &d
				case "distort-agent":
					c := d.Spec.Template.Spec.Containers[0]
					for _, arg := range tc.agent {
						if !slices.Contains(c.Args, arg) {
							t.Errorf("the agent's arguments %v lack %s", c.Args, arg)
						}
					}
					for _, arg := range tc.never {
						if slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, arg) }) {
							t.Errorf("the agent's arguments %v have %s", c.Args, arg)
						}
					}
					pages := c.Resources.Limits[corev1.ResourceHugePagesPrefix+"2Mi"]
					if got := pages.String(); got != tc.pages && (tc.pages != "" || !pages.IsZero()) {
						t.Errorf("the agent's huge pages are %s, want %q", got, tc.pages)
					}
					mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/run/distort-spdk" })
					if mounted != (tc.agent != nil) {
						t.Errorf("the socket's folder is mounted: %t", mounted)
					}
				}
			}
			if (target != nil) != (tc.target != nil) {
				t.Fatalf("there is a DaemonSet of targets: %t", target != nil)
			}
			if target == nil {
				return
			}
			pod := target.Spec.Template.Spec
			if c := pod.Containers[0]; !slices.Equal(c.Command, tc.target) {
				t.Errorf("the target is started as %v, want %v", c.Command, tc.target)
			}
			if target.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
				t.Errorf("targets are replaced by %s", target.Spec.UpdateStrategy.Type)
			}
			if !pod.HostNetwork || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
				t.Errorf("host network %t, token %v", pod.HostNetwork, pod.AutomountServiceAccountToken)
			}
		})
	}
}
