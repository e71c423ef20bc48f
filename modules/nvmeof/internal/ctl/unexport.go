package ctl

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/distort-io/distort/modules/nvmeof"
)

func (a *app) unexportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "unexport NQN",
		Short: "Drain a subsystem's devices and remove it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			nqn, err := nvmeof.ParseNQN(args[0])
			if err != nil {
				return err
			}
			ctx, cancel, target := a.begin(cmd)
			defer cancel()
			report, err := target.Remove(ctx, nqn)
			a.print(report)
			if err != nil {
				return err
			}
			if !report.Changed() {
				fmt.Fprintf(a.Out, "%s is not exported, nothing to do\n", nqn)
			}
			return nil
		},
	}
}
