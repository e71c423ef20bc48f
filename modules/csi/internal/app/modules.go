package app

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/distort-io/distort/modules/csi/internal/command"
)

// fabricModules are the kernel's NVMe-oF initiator.
var fabricModules = []string{"nvme-fabrics", "nvme-tcp", "nvme-rdma"}

// moduleTimeout bounds one modprobe, which may wait for hardware.
const moduleTimeout = 30 * time.Second

// loadModules asks for each module. One that cannot be had is no error: it may
// be built in, and a node without RDMA serves TCP. A stage that needs what is
// missing says so.
func loadModules(ctx context.Context, runner command.Runner, log logr.Logger) {
	for _, module := range fabricModules {
		ctx, cancel := context.WithTimeout(ctx, moduleTimeout)
		_, err := runner.Run(ctx, "modprobe", "--", module)
		cancel()
		if err != nil {
			log.Error(err, "kernel module is not loaded", "module", module)
		}
	}
}
