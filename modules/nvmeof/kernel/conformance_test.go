package kernel_test

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest"
)

// Compile with "go test -c ./kernel" and run the binary as root in a machine
// whose devices may be exported, with these variables.
const (
	envRoot      = "NVMEOF_CONFORMANCE_ROOT"      // nvmet directory, such as /sys/kernel/config/nvmet
	envDevices   = "NVMEOF_CONFORMANCE_DEVICES"   // at least two block devices, comma separated
	envListeners = "NVMEOF_CONFORMANCE_LISTENERS" // at least two local listeners, comma separated
)

func TestModelKernelConforms(t *testing.T) {
	devices := []string{"/dev/nvme0n1", "/dev/nvme1n1"}
	listeners := parseListeners(t, "tcp://10.0.0.1:4420,tcp://[fd00::1]:4420,rdma://10.0.0.1:4421,rdma://[fd00::1]:4421")
	for name, options := range map[string][]nvmeoftest.Option{"as Debian builds it": nil, "with debugfs": {nvmeoftest.WithDebugfs()}} {
		t.Run(name, func(t *testing.T) {
			k := nvmeoftest.NewKernel(append(options, nvmeoftest.WithDevices(devices...),
				nvmeoftest.WithAddresses(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")))...)
			nvmeoftest.RunConformance(t, nvmeoftest.Env{
				Target: kernel.New(k, kernel.WithDebugFS(k.Debug())), FS: k, Devices: devices, Listeners: listeners,
				Connect: func(host, nqn string, l nvmeof.Listener) (func() error, error) {
					c, err := k.Connect(host, nqn, l)
					return func() error { k.Disconnect(c); return nil }, err
				},
			})
			if left := leftovers(k); len(left) > 0 {
				t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
			}
		})
	}
}

func TestRealKernelConforms(t *testing.T) {
	root := os.Getenv(envRoot)
	if root == "" {
		t.Skipf("needs root and a kernel with nvmet: set %s, %s and %s", envRoot, envDevices, envListeners)
	}
	fs := kernel.OS(root)
	nvmeoftest.RunConformance(t, nvmeoftest.Env{
		Target: kernel.New(fs, kernel.WithDebugFS(kernel.OS(kernel.DebugRoot))), FS: fs, Connect: connectFabrics,
		Devices:   strings.Split(os.Getenv(envDevices), ","),
		Listeners: parseListeners(t, os.Getenv(envListeners)),
	})
}

func parseListeners(t *testing.T, list string) []nvmeof.Listener {
	t.Helper()
	var listeners []nvmeof.Listener
	for text := range strings.SplitSeq(list, ",") {
		l, err := nvmeof.ParseListener(text)
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
	}
	return listeners
}

// leftovers is what the kernel holds beyond what an empty one holds.
func leftovers(k *nvmeoftest.Kernel) []string {
	empty := map[string]bool{}
	for _, line := range nvmeoftest.NewKernel().Dump() {
		empty[line] = true
	}
	var left []string
	for _, line := range k.Dump() {
		if !empty[line] {
			left = append(left, line)
		}
	}
	return left
}
