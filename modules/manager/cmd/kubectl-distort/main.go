// kubectl-distort is the plugin `kubectl distort`: it says what is wrong with a
// volume, shows where capacity is, and foretells what maintenance does.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/distort-io/distort/modules/manager/internal/kubectl"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := kubectl.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
