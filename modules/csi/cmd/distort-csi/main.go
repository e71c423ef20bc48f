// Command distort-csi is the CSI driver storage.distort.io: the controller half
// beside the sidecars, the node half for kubelet.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/distort-io/distort/modules/csi/internal/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := app.Main(ctx, os.Args[1:], os.Getenv, os.Stderr)
	stop()
	os.Exit(code)
}
