// distort-manager binds drives, places volumes, accounts for capacity and
// watches the health of storage nodes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/distort-io/distort/modules/manager/internal/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	options, err := app.Parse(os.Args[1:], os.Getenv)
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err == nil {
		err = app.Run(ctx, options)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "distort-manager:", err)
		os.Exit(1)
	}
}
