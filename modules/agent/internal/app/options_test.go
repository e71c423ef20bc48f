package app_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/agent/internal/app"
	"github.com/distort-io/distort/modules/agent/internal/spdkdrive"
)

func env(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestDefaultsComeFromThePod(t *testing.T) {
	o, err := app.Parse(nil, env(map[string]string{"NODE_NAME": "storage-0", "POD_NAMESPACE": "storage", "NODE_IP": "10.0.0.1"}))
	if err != nil {
		t.Fatal(err)
	}
	want := app.Options{
		NodeName: "storage-0", Namespace: "storage", KubeAPIQPS: 50, KubeAPIBurst: 100,
		ConfigfsRoot: "/sys/kernel/config", SysfsRoot: "/sys", ProcfsRoot: "/proc", DevRoot: "/dev",
		TCPAddresses: []string{"10.0.0.1"}, TCPPort: 4420, RDMAPort: 4421, ScanInterval: time.Minute, CheckInterval: time.Minute,
		HealthProbeBindAddress: ":8081", MetricsBindAddress: "0",
		SPDK: app.SPDKOptions{Plan: spdkdrive.Plan{CoreMask: "0x1", MemoryMiB: 512, SmallBuffers: 8192, LargeBuffers: 1024, Queues: 576}},
	}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	if o := app.Defaults(env(nil)); o.Namespace != "distort-system" {
		t.Errorf("namespace without an environment = %q", o.Namespace)
	}
}

func TestFlagsOverrideTheEnvironment(t *testing.T) {
	o, err := app.Parse([]string{"--node-name=b", "--tcp-address=fd00::1", "--tcp-address=10.0.0.2", "--device-deny=S1,0000:3b:00.0", "--scan-interval=5s"},
		env(map[string]string{"NODE_NAME": "a", "NODE_IP": "10.0.0.1"}))
	if err != nil {
		t.Fatal(err)
	}
	if o.NodeName != "b" || o.ScanInterval != 5*time.Second ||
		!cmp.Equal(o.TCPAddresses, []string{"fd00::1", "10.0.0.2"}) || !cmp.Equal(o.DeviceDeny, []string{"S1", "0000:3b:00.0"}) {
		t.Errorf("options = %+v", o)
	}
}

func TestSPDKFlags(t *testing.T) {
	managed, err := app.Parse([]string{"--node-name=a", "--spdk-target=/bin/nvmf_tgt", "--spdk-core-mask=0x6"}, env(nil))
	if err != nil || managed.SPDK.Socket != "/run/distort-spdk/spdk.sock" || managed.SPDK.Plan.CoreMask != "0x6" {
		t.Errorf("%+v, %v", managed.SPDK, err)
	}
	external, err := app.Parse([]string{"--node-name=a"}, env(map[string]string{"DISTORT_SPDK_SOCKET": "/run/s"}))
	if _, err := app.Parse([]string{"--node-name=a", "--spdk-socket=/run/s", "--spdk-queues=0"}, env(nil)); err == nil || !strings.Contains(err.Error(), "--spdk-queues 0") {
		t.Errorf("an external target without queues: %v", err)
	}
	if err != nil || external.SPDK.Socket != "/run/s" || external.SPDK.Target != "" {
		t.Errorf("%+v, %v", external.SPDK, err)
	}
	for _, bad := range []string{"--spdk-core-mask=3", "--spdk-memory=0", "--spdk-queues=-1", "--spdk-small-buffers=0"} {
		flag, value, _ := strings.Cut(bad, "=")
		if _, err := app.Parse([]string{"--node-name=a", "--spdk-target=/bin/nvmf_tgt", bad}, env(nil)); err == nil || !strings.Contains(err.Error(), flag) || !strings.Contains(err.Error(), value) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestBadFlagsAreNamedWithValueAndRule(t *testing.T) {
	for arg, mentions := range map[string]string{
		"--node-name=":           "--node-name",
		"--node-name=UPPER":      "UPPER",
		"--namespace=a.b":        "a.b",
		"--tcp-port=0":           "--tcp-port 0",
		"--spdk-socket=a":        `--spdk-socket "a": must be an absolute path`,
		"--spdk-target=nvmf_tgt": `--spdk-target "nvmf_tgt": must be an absolute path`,
		"--spdk-core-mask=0x3":   "needs --spdk-target",
		"--spdk-interrupt-mode":  "needs --spdk-target",
		"--spdk-queues=9":        "needs --spdk-socket or --spdk-target",
		"--tcp-port=70000":       "from 1 to 65535",
		"--rdma-port=4420":       "must differ",
		"--configfs-root=sys":    "absolute",
		"--scan-interval=1ms":    "at least",
		"--check-interval=0":     "at least",
		"--kube-api-burst=0":     "above 0",
		"--log-level=LOUD":       "LOUD",
		"--no-such-flag":         "no-such-flag",
		"carve":                  `"carve"`,
		"--health-probe-bind=:1": "health-probe-bind",
	} {
		_, err := app.Parse([]string{arg}, env(map[string]string{"NODE_NAME": "storage-0"}))
		if err == nil || !strings.Contains(err.Error(), mentions) {
			t.Errorf("%s: error %v, want one that mentions %q", arg, err, mentions)
		}
	}
}

func TestAMissingTargetNamesTheModule(t *testing.T) {
	o := app.Defaults(env(map[string]string{"NODE_NAME": "storage-0"}))
	o.ConfigfsRoot = filepath.Join(t.TempDir(), "config")
	_, err := app.OpenHost(context.Background(), o, logr.Discard())
	if err == nil || !strings.Contains(err.Error(), "module nvmet") || !strings.Contains(err.Error(), o.ConfigfsRoot) {
		t.Errorf("error = %v, want one that names the module and the path", err)
	}
}
