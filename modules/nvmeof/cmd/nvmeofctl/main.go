// Command nvmeofctl exports block devices over NVMe-oF with the Linux kernel's
// target.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/internal/ctl"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return ctl.Run(ctx, os.Args[1:], ctl.Config{
		Target:  func(root string) nvmeof.Target { return kernel.New(kernel.OS(root)) },
		Devices: ctl.NewHost("/proc", "/sys"),
		Out:     os.Stdout,
		Err:     os.Stderr,
	})
}
