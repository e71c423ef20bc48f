// Package conformance runs the conformance suite of modules/nvmeof against the
// real kernel: the test binary is built here, copied into the storage guest and
// run there.
package conformance

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/repo"
	"github.com/distort-io/distort/e2e/internal/suite"
)

const (
	storageNode = "storage"
	binary      = "/run/lab/kernel.test"
	realKernel  = "TestRealKernelConforms"
)

// TestKernelTarget uses RAM disks and ports of its own, so that it does not
// touch what the agent exports.
func TestKernelTarget(t *testing.T) {
	l := suite.Open(t)
	ctx := t.Context()
	node, err := layout.Find(storageNode)
	if err != nil {
		t.Fatal(err)
	}
	guest := suite.Guest(t, l, storageNode)
	built := build(t)
	if _, err := guest.Output(ctx, "modprobe", "--", "brd", "rd_nr=2", "rd_size=65536"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"tee", binary}, {"chmod", "755", binary}} {
		code, err := guest.Run(ctx, guestexec.Request{Args: args}, guestexec.Streams{In: bytes.NewReader(built)})
		if err != nil || code != 0 {
			t.Fatalf("copy the test into guest %s: exit code %d, %v", storageNode, code, err)
		}
	}
	var out bytes.Buffer
	code, err := guest.Run(ctx, guestexec.Request{
		Args: []string{binary, "-test.v", "-test.run=^" + realKernel + "$", "-test.timeout=20m"},
		Env: []string{
			"NVMEOF_CONFORMANCE_ROOT=/sys/kernel/config/nvmet",
			"NVMEOF_CONFORMANCE_DEVICES=/dev/ram0,/dev/ram1",
			"NVMEOF_CONFORMANCE_LISTENERS=tcp://" + node.Address() + ":14420,rdma://" + node.Address() + ":14421",
		},
	}, guestexec.Streams{Out: &out, Err: &out})
	t.Log("\n" + out.String())
	if err != nil {
		t.Fatal(err)
	}
	if code != 0 || !strings.Contains(out.String(), "--- PASS: "+realKernel) {
		t.Errorf("the real kernel does not conform: exit code %d", code)
	}
}

// build compiles the test binary and returns its content.
func build(t *testing.T) []byte {
	t.Helper()
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kernel.test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-trimpath", "-o", path, "./kernel")
	cmd.Dir = filepath.Join(root, "modules", "nvmeof")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the suite: %v\n%s", err, out)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
