// Package ctl is the logic of the command nvmeofctl: it parses, checks that a
// device is free to be exported, and calls an nvmeof.Target.
package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// Exit codes.
const (
	ExitOK      = 0
	ExitFailure = 1 // the host or the target refused
	ExitUsage   = 2 // the command line is wrong, nothing was tried
)

// Config is what the command works with.
type Config struct {
	// Target returns the target that the command line names.
	Target func(Where) nvmeof.Target
	// Devices tells what is known about local block devices.
	Devices Devices
	// Out takes results, Err takes messages.
	Out, Err io.Writer
}

// Where says which target is meant.
type Where struct {
	// Kind is KindKernel or KindSPDK.
	Kind string
	// Root is the nvmet directory, for the kernel.
	Root string
	// Socket is the path of SPDK's RPC server, for SPDK.
	Socket string
}

// What --target can be.
const (
	KindKernel = "kernel"
	KindSPDK   = "spdk"
)

// Devices is what the command asks about local block devices.
type Devices interface {
	// ID returns the device number behind a path. It fails unless that is a
	// block device.
	ID(path string) (uint64, error)
	// Free fails if this host uses the device: mounted, swap, or part of
	// something like LVM, md or ZFS.
	Free(path string) error
}

// Run executes one command line and returns the exit code.
func Run(ctx context.Context, args []string, cfg Config) int {
	a := &app{Config: cfg}
	root := a.command()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	fmt.Fprintf(cfg.Err, "nvmeofctl: %v\n", err)
	if !a.ran || errors.Is(err, nvmeof.ErrInvalid) {
		fmt.Fprintln(cfg.Err, "Run nvmeofctl --help for usage.")
		return ExitUsage
	}
	return ExitFailure
}

type app struct {
	Config
	where   Where
	timeout time.Duration
	// ran tells that a command began, so that errors are no longer about flags.
	ran bool
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "nvmeofctl",
		Short:         "Export block devices over NVMe-oF with the Linux kernel's target or SPDK's",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("a command is required: export, list or unexport")
		},
	}
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentFlags().StringVar(&a.where.Kind, "target", KindKernel, "target: kernel or spdk")
	root.PersistentFlags().StringVar(&a.where.Root, "root", kernel.DefaultRoot, "nvmet directory of the mounted configfs (target kernel)")
	root.PersistentFlags().StringVar(&a.where.Socket, "socket", rpc.DefaultSocket, "socket of SPDK's JSON-RPC server (target spdk)")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if a.where.Kind != KindKernel && a.where.Kind != KindSPDK {
			return fmt.Errorf("--target %q: must be %s or %s", a.where.Kind, KindKernel, KindSPDK)
		}
		return nil
	}
	root.PersistentFlags().DurationVar(&a.timeout, "timeout", 30*time.Second, "give up after this time; a device that does not answer blocks its export")
	root.AddCommand(a.exportCommand(), a.listCommand(), a.unexportCommand())
	return root
}

// begin starts the work of a command, bounded by --timeout.
func (a *app) begin(cmd *cobra.Command) (context.Context, context.CancelFunc, nvmeof.Target) {
	a.ran = true
	ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
	return ctx, cancel, a.Target(a.where)
}

func (a *app) print(report nvmeof.Report) {
	for _, c := range report.Changes {
		fmt.Fprintln(a.Out, c)
	}
}
