// Package cli is the command line of the lab.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// exitError makes the program end with the exit code of something it ran.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// Run executes the command line and returns the exit code of the process.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var exit exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "lab: interrupted")
		return 130
	default:
		fmt.Fprintln(stderr, "lab:", err)
		return 1
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "lab",
		Short:         "A Kubernetes cluster of QEMU guests with real NVMe-oF, on one machine without NVMe hardware",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newPrepare(), newUp(), newDown(), newStatus(), newExplain(), newShell(), newLogs(), newKubeconfig(), newRelay(), newInstall(), newImages(), newDemo(), newE2E())
	return root
}
