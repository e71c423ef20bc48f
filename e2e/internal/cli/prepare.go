package cli

import (
	"errors"
	"fmt"

	"github.com/distort-io/distort/e2e/internal/prepare"
	"github.com/spf13/cobra"
)

func newPrepare() *cobra.Command {
	var only []string
	var print, list bool
	cmd := &cobra.Command{
		Use:   "prepare",
		Short: "Make everything the lab boots from; what is in the cache is not made again",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if list {
				for _, step := range prepare.Catalogue() {
					fmt.Fprintf(cmd.OutOrStdout(), "%-12s %s\n", step.Name, step.Summary)
				}
				return nil
			}
			if print && len(only) != 1 {
				return errors.New("--print prints one artifact: name its step with --only")
			}
			made, err := prepare.Make(cmd.Context(), cmd.ErrOrStderr(), only)
			if err != nil {
				return err
			}
			if print {
				fmt.Fprintln(cmd.OutOrStdout(), made[only[0]])
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&only, "only", nil, "make only these steps and what they need")
	cmd.Flags().BoolVar(&print, "print", false, "print the directory of the step named by --only on standard output")
	cmd.Flags().BoolVar(&list, "list", false, "list the steps")
	return cmd
}
