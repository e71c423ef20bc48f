package kubectl

import (
	"github.com/spf13/cobra"

	"github.com/distort-io/distort/modules/manager/internal/overview"
)

func newCapacity(o *options) *cobra.Command {
	command := &cobra.Command{
		Use:   "capacity",
		Short: "Show nodes, drives and volumes: what is there, reserved and free",
		Args:  none,
	}
	output := outputFlag(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		s, err := o.connect()
		if err != nil {
			return err
		}
		inventory, err := s.gatherer.Storage(command.Context())
		if err != nil {
			return err
		}
		tree := overview.Build(inventory)
		p := newPrinter(command.OutOrStdout())
		if output.json() {
			return p.json(tree)
		}
		p.tree(tree)
		return nil
	}
	return command
}
