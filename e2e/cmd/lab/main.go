// Command lab builds and runs the DISTORT lab: a small Kubernetes cluster of
// QEMU guests with real NVMe-oF between them. See e2e/README.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/distort-io/distort/e2e/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
