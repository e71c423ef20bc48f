// Package conformance runs tests of the modules that need a kernel of their own
// against the real one: each test binary is built here, copied into a guest and run
// there. What the modules' fakes are held against, these hold against Linux.
package conformance

import (
	"strings"
	"testing"

	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/suite"
)

const (
	storageNode = "storage"
	// ownIPv6 is an address of the storage guest for this suite alone. It is on the
	// loopback interface, where the agent looks for none to serve volumes on.
	ownIPv6 = "fd77::10"
)

// TestKernelTarget uses RAM disks and ports of its own, so that it does not
// touch what the agent exports. It listens on IPv4 and IPv6.
func TestKernelTarget(t *testing.T) {
	guest := suite.Guest(t, suite.Open(t), storageNode)
	node, err := layout.Find(storageNode)
	suite.Must(t, err)
	output(t, guest, "modprobe", "--", "brd", "rd_nr=2", "rd_size=65536")
	output(t, guest, "ip", "-6", "addr", "add", ownIPv6+"/128", "dev", "lo")
	t.Cleanup(func() { cleanUp(t, guest, "ip", "-6", "addr", "del", ownIPv6+"/128", "dev", "lo") })
	runInGuest(t, guest, program{module: "nvmeof", pkg: "./kernel", run: "^TestRealKernelConforms$", passes: []string{"TestRealKernelConforms"}, env: []string{
		"NVMEOF_CONFORMANCE_ROOT=/sys/kernel/config/nvmet",
		"NVMEOF_CONFORMANCE_DEVICES=/dev/ram0,/dev/ram1",
		"NVMEOF_CONFORMANCE_LISTENERS=" + strings.Join([]string{
			"tcp://" + node.Address() + ":14420", "rdma://" + node.Address() + ":14421", "tcp://[" + ownIPv6 + "]:14422",
		}, ","),
	}})
}

// TestPartitionManager carves a loop device with the kernel and the programs that the
// agent has on a storage node.
func TestPartitionManager(t *testing.T) {
	guest := suite.Guest(t, suite.Open(t), storageNode)
	output(t, guest, "modprobe", "--", "loop")
	runInGuest(t, guest, program{
		module: "agent", pkg: "./internal/carve/gpt", run: "^TestHostDevice$", passes: []string{"TestHostDevice"}, env: []string{"DISTORT_TEST_CARVE=loop"},
	})
}

// TestFilesystems makes, mounts, grows and checks ext4 and xfs as the node plugin does.
func TestFilesystems(t *testing.T) {
	guest := suite.Guest(t, suite.Open(t), layout.Consumers()[0])
	for _, module := range []string{"loop", "ext4", "xfs"} {
		output(t, guest, "modprobe", "--", module)
	}
	runInGuest(t, guest, program{
		module: "csi", pkg: "./internal/filesystem", run: "^(TestOnTheRunningHost|TestExt4Size)$",
		passes: []string{"TestOnTheRunningHost/ext4", "TestOnTheRunningHost/xfs", "TestExt4Size"},
	})
}

func output(t *testing.T, guest *guestexec.Client, args ...string) {
	t.Helper()
	_, err := guest.Output(t.Context(), args...)
	suite.Must(t, err)
}
