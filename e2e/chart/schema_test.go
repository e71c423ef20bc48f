package chart

import (
	"strings"
	"testing"
)

// TestValuesAreChecked: each wrong value is refused, by a message that names it.
func TestValuesAreChecked(t *testing.T) {
	const sum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, c := range map[string]struct {
		set string
		// says is in the message; empty: the values are good.
		says string
	}{
		"the defaults":                  {set: "manager.replicas=1"},
		"digest without tag":            {set: "images.agent.tag=,images.agent.digest=sha256:" + sum},
		"registry with port":            {set: "images.agent.repository=registry.example:5000/mirror/distort-agent"},
		"unknown value":                 {"mangager.replicas=2", "mangager"},
		"unknown value of the manager":  {"manager.replica=2", "replica"},
		"unknown value of the agent":    {"agent.tcpIface=eth0", "tcpIface"},
		"unknown value of the node":     {"csiNode.maxVolume=3", "maxVolume"},
		"unknown sidecar":               {"images.livenessprobe.tag=v8", "livenessprobe"},
		"tag latest":                    {"images.agent.tag=latest", `images.agent.tag is "latest"`},
		"sidecar's tag latest":          {"images.provisioner.tag=latest", `images.provisioner.tag is "latest"`},
		"neither tag nor digest":        {"images.csi.tag=", `images.csi.tag is ""`},
		"digest in the tag":             {"images.csi.tag=v1@sha256:" + sum, "/images/csi/tag"},
		"short digest":                  {"images.csi.digest=sha256:0123", "/images/csi/digest"},
		"tag in the repository":         {"images.manager.repository=ghcr.io/distort-io/distort-manager:v1", "/images/manager/repository"},
		"no registry":                   {"images.manager.repository=distort-manager", "/images/manager/repository"},
		"pull policy":                   {"images.pullPolicy=Sometimes", "/images/pullPolicy"},
		"replicas as text":              {"manager.replicas=two", "/manager/replicas"},
		"no replicas":                   {"csiController.replicas=0", "/csiController/replicas"},
		"removed value":                 {"manager.replicas=null", "replicas"},
		"port out of range":             {"agent.tcpPort=65536", "/agent/tcpPort"},
		"one port for both transports":  {"agent.rdmaPort=4420", "agent.tcpPort and agent.rdmaPort"},
		"one port of the node twice":    {"csiNode.healthPort=9811", "agent.healthPort and csiNode.healthPort are both 9811"},
		"port as text":                  {"csiNode.healthPort=http", "/csiNode/healthPort"},
		"long interface":                {"agent.tcpInterface=averylonginterface", "/agent/tcpInterface"},
		"long serial number":            {"agent.denySerials={ABCDEFGHIJKLMNOPQRSTU}", "/agent/denySerials/0"},
		"relative kubelet folder":       {"kubeletDir=var/lib/kubelet", "/kubeletDir"},
		"kubelet folder that leads up":  {"kubeletDir=/var/../etc", "/kubeletDir"},
		"shutdown marker in the root":   {"csiNode.shutdownMarker=/nologin", "/csiNode/shutdownMarker"},
		"backend of a later version":    {"defaultBackend=spdk", "/defaultBackend"},
		"domain that is no label value": {"networkDomain=a b", "/networkDomain"},
		"empty default domain":          {"defaultNetworkDomain=", "/defaultNetworkDomain"},
		"lease too short":               {"leaderElection.leaseSeconds=2", "/leaderElection/leaseSeconds"},
		"timeout without unit":          {"csiController.timeout=60", "/csiController/timeout"},
		"flag without dashes":           {"agent.extraArgs={log-level=DEBUG}", "/agent/extraArgs/0"},
		"quantity":                      {"manager.resources.limits.memory=256MB", "/manager/resources/limits/memory"},
		"unknown resource":              {"manager.resources.limits.mem=256Mi", "mem"},
		"update strategy":               {"agent.updateStrategy.type=Recreate", "/agent/updateStrategy/type"},
		"toleration":                    {"agent.tolerations[0].operator=Any", "/agent/tolerations/0/operator"},
		"monitor without metrics":       {"metrics.serviceMonitor.enabled=true", "/metrics/enabled"},
		"alerts without metrics":        {"metrics.prometheusRule=true", "/metrics/enabled"},
		"dashboard without metrics":     {"metrics.dashboard=true", "/metrics/enabled"},
		"alerts with metrics":           {set: "metrics.enabled=true,metrics.prometheusRule=true,metrics.dashboard=true"},
		"another variable":              {"otel.PATH=/bin", "PATH"},
		"variable that is a number":     {"otel.OTEL_BSP_SCHEDULE_DELAY=5", "/otel/OTEL_BSP_SCHEDULE_DELAY"},
		"a variable of OpenTelemetry":   {set: "otel.OTEL_SERVICE_NAMESPACE=storage"},
		"peer that is nobody":           {"networkPolicy.metricsFrom[0].pods=all", "/networkPolicy/metricsFrom/0"},
		"class without name":            {"storageClasses[0].default=true", "/storageClasses/0"},
		"class with another reclaim":    {"storageClasses[0].name=a,storageClasses[0].reclaimPolicy=Recycle", "/storageClasses/0/reclaimPolicy"},
		"snapshots without classes":     {"snapshots.classes=null", "classes"},
		"snapshot class without name":   {"snapshots.classes[0].default=true,snapshots.classes[0].name=null", "/snapshots/classes/0"},
		"snapshot class's policy":       {"snapshots.classes[0].name=a,snapshots.classes[0].deletionPolicy=Recycle", "/snapshots/classes/0/deletionPolicy"},
		"parameter that is a number":    {"storageClasses[0].name=a,storageClasses[0].parameters.reconnect-delay=10", "/storageClasses/0/parameters/reconnect-delay"},
		"several mount options in one":  {`storageClasses[0].name=a,storageClasses[0].mountOptions={ro\,suid}`, "/storageClasses/0/mountOptions/0"},
		"SPDK with an image":            {set: "spdk.mode=external,images.spdk.repository=registry.example/spdk,images.spdk.tag=v26.05"},
		"SPDK without an image":         {"spdk.mode=external", `images.spdk.tag is ""`},
		"SPDK in another mode":          {"spdk.mode=on", "/spdk/mode"},
		"SPDK that the agent runs":      {set: "spdk.mode=managed,spdk.interruptMode=true,spdk.coreMask=0x6"},
		"no cores for SPDK":             {"spdk.coreMask=0x0", "/spdk/coreMask"},
		"memory for SPDK as text":       {"spdk.memoryMiB=1Gi", "/spdk/memoryMiB"},
		"relative path of SPDK":         {"spdk.target=nvmf_tgt", "/spdk/target"},
		"guard that is neither":         {"uninstallGuard=maybe", "/uninstallGuard"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := helm(t.Context(), "template", release, chartDir(), "--kube-version", "v1.37.0", "--set", c.set)
			switch {
			case c.says == "" && err != nil:
				t.Errorf("--set %s is refused: %v", c.set, err)
			case c.says != "" && err == nil:
				t.Errorf("--set %s is accepted", c.set)
			case c.says != "" && !strings.Contains(err.Error(), c.says):
				t.Errorf("--set %s: the message does not name %q: %v", c.set, c.says, err)
			}
		})
	}
}

// TestOldKubernetesIsRefused: the node claim of tokens is on by default since 1.30.
func TestOldKubernetesIsRefused(t *testing.T) {
	_, err := helm(t.Context(), "template", release, chartDir(), "--kube-version", "v1.30.9")
	if err == nil || !strings.Contains(err.Error(), "incompatible with Kubernetes v1.30.9") {
		t.Errorf("Kubernetes 1.30 is not refused: %v", err)
	}
}

// TestLint runs helm's own checks with each set of values.
func TestLint(t *testing.T) {
	for name, values := range map[string][]string{"defaults": nil, "lab": lab(), "everything": everything, "nothing": nothing} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := helm(t.Context(), append([]string{"lint", "--strict", chartDir(), "--kube-version", "v1.37.0"}, values...)...); err != nil {
				t.Error(err)
			}
		})
	}
}
