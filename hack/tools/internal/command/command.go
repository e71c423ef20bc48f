// Package command is the command line of cmd/modules.
package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/distort-io/distort/hack/tools/internal/boundaries"
	"github.com/distort-io/distort/hack/tools/internal/release"
	"github.com/distort-io/distort/hack/tools/internal/repo"
	"github.com/distort-io/distort/hack/tools/internal/standalone"
)

// New is the root command.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:           "modules",
		Short:         "Work on the Go modules of the repository one by one",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(list(), tidy(), check(), standaloneCommand(), snapshot())
	return root
}

func list() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the published modules and their versions",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tree, err := repo.Open(".")
			if err != nil {
				return err
			}
			for _, m := range tree.Modules {
				fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", m.Dir, m.Version)
			}
			return nil
		},
	}
}

func tidy() *cobra.Command {
	var diff bool
	cmd := &cobra.Command{
		Use:   "tidy [module directory...]",
		Short: "Run go mod tidy, taking unpublished siblings from the tree",
		RunE: func(cmd *cobra.Command, dirs []string) error {
			tree, err := repo.Open(".")
			if err != nil {
				return err
			}
			if len(dirs) == 0 {
				dirs = tree.WorkspaceDirs
			}
			for _, dir := range dirs {
				if err := standalone.Tidy(cmd.Context(), tree, dir, diff, cmd.OutOrStdout()); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&diff, "diff", false, "change nothing and fail when something would change")
	return cmd
}

func check() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check module boundaries, the rules for go.mod files, and that all places that speak of releases agree",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			tree, err := repo.Open(".")
			if err != nil {
				return err
			}
			return errors.Join(boundaries.Check(tree), release.Check(tree))
		},
	}
}

func standaloneCommand() *cobra.Command {
	var short bool
	cmd := &cobra.Command{
		Use:   "standalone [module directory...]",
		Short: "Build, vet and test modules with GOWORK=off against their siblings as a module proxy serves them",
		RunE: func(cmd *cobra.Command, dirs []string) error {
			tree, err := repo.Open(".")
			if err != nil {
				return err
			}
			return standalone.Run(cmd.Context(), tree, standalone.Options{
				Dirs: dirs, BuildOnly: short, Out: cmd.OutOrStdout(),
			})
		},
	}
	cmd.Flags().BoolVar(&short, "build-only", false, "build and vet, tests included, without running them")
	return cmd
}

func snapshot() *cobra.Command {
	var o release.SnapshotOptions
	cmd := &cobra.Command{
		Use:   "snapshot [module...]",
		Short: "Build the programs of .goreleaser.yaml as a release would, without publishing anything",
		RunE: func(cmd *cobra.Command, modules []string) error {
			tree, err := repo.Open(".")
			if err != nil {
				return err
			}
			o.Modules, o.Out = modules, cmd.OutOrStdout()
			return release.Snapshot(cmd.Context(), tree, o)
		},
	}
	cmd.Flags().StringVar(&o.Dir, "dir", "dist/programs", "folder for the programs, made anew")
	cmd.Flags().StringSliceVar(&o.Architectures, "arch", nil, "only these architectures")
	return cmd
}
