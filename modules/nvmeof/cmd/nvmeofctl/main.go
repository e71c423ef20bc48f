// Command nvmeofctl exports block devices over NVMe-oF with the Linux kernel's
// target or SPDK's.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/internal/ctl"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
	"github.com/distort-io/distort/modules/nvmeof/spdk"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return ctl.Run(ctx, os.Args[1:], ctl.Config{
		Target:  target,
		Devices: ctl.NewHost("/proc", "/sys"),
		Out:     os.Stdout,
		Err:     os.Stderr,
	})
}

func target(where ctl.Where) nvmeof.Target {
	if where.Kind == ctl.KindSPDK {
		return spdk.New(rpc.New(where.Socket))
	}
	return kernel.New(kernel.OS(where.Root))
}
