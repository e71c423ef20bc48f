package kubectl

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/distort-io/distort/modules/manager/internal/gather"
	"github.com/distort-io/distort/modules/manager/internal/whatif"
)

func newWhatIf(o *options) *cobra.Command {
	command := &cobra.Command{
		Use:   "what-if",
		Short: "Foretell what maintenance does to volumes: who notices, and what would refuse",
		Long: `Foretell what maintenance does to volumes: which are affected, which pods notice
and how, and what would refuse. Exit code 1 when any volume is affected or
anything refuses.`,
		RunE: func(command *cobra.Command, args []string) error {
			if err := none(command, args); err != nil {
				return err
			}
			return command.Help()
		},
	}
	for _, question := range []struct {
		use, short, what string
		ask              func(*gather.Inventory, time.Time, string) (*whatif.Plan, error)
	}{
		{"drain-node NODE", "A node is drained and taken down", "node", whatif.DrainNode},
		{"remove-device SERIAL", "A drive is taken out for good", "serial number", func(i *gather.Inventory, _ time.Time, serial string) (*whatif.Plan, error) {
			return whatif.RemoveDevice(i, serial)
		}},
		{"upgrade-agent NODE", "The agent of a storage node is replaced", "node", whatif.UpgradeAgent},
	} {
		sub := &cobra.Command{Use: question.use, Short: question.short, Args: oneOf(question.what)}
		output := outputFlag(sub)
		sub.RunE = func(command *cobra.Command, args []string) error {
			s, err := o.connect()
			if err != nil {
				return err
			}
			inventory, err := s.gatherer.Everything(command.Context())
			if err != nil {
				return err
			}
			plan, err := question.ask(inventory, s.gatherer.Now(), args[0])
			if err != nil {
				return err
			}
			p := newPrinter(command.OutOrStdout())
			if output.json() {
				err = p.json(plan)
			} else {
				p.plan(plan)
			}
			if err == nil && len(plan.Volumes)+len(plan.Refusals) > 0 {
				err = errFound
			}
			return err
		}
		command.AddCommand(sub)
	}
	return command
}
