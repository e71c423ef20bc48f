package cli

import (
	"github.com/spf13/cobra"

	"github.com/distort-io/distort/e2e/internal/prepare"
	"github.com/distort-io/distort/e2e/internal/repo"
)

func newImages() *cobra.Command {
	var programs, out string
	cmd := &cobra.Command{
		Use:   "images",
		Short: "Make OCI image layouts of programs that `modules snapshot` built, without a registry or Docker",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := repo.Root()
			if err != nil {
				return err
			}
			made, err := prepare.Make(cmd.Context(), cmd.ErrOrStderr(), []string{prepare.StepBaseImages})
			if err != nil {
				return err
			}
			return prepare.ReleaseImages(made, root, programs, out, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&programs, "programs", "dist/programs", "folder with the programs")
	cmd.Flags().StringVar(&out, "out", "dist/images", "folder for the images")
	return cmd
}
