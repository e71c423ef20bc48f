// Package releasecmd is the command line of cmd/release.
package releasecmd

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/distort-io/distort/hack/tools/internal/git"
	"github.com/distort-io/distort/hack/tools/internal/release"
	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// New is the root command.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:           "release",
		Short:         "Say what is to be released, change versions, make tags",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(list(), verify(), bump(), closeCommand(), tag(), apidiff(), notes())
	return root
}

// open reads the checkout around the current folder.
func open() (*repo.Tree, git.Repo, error) {
	tree, err := repo.Open(".")
	if err != nil {
		return nil, git.Repo{}, err
	}
	return tree, git.Repo{Dir: tree.Root}, nil
}

// needCheckout fails for sources without a repository: they have no tags.
func needCheckout(ctx context.Context, g git.Repo) error {
	if !g.IsCheckout(ctx) {
		return fmt.Errorf("%s is no checkout of git: there are no tags to look at", g.Dir)
	}
	return nil
}

func list() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List what is released by itself, in the order of releases: version, last tag, and whether it changed since",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tree, g, err := open()
			if err != nil {
				return err
			}
			if err := needCheckout(cmd.Context(), g); err != nil {
				return err
			}
			states, err := release.States(cmd.Context(), tree, g)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "FOLDER\tVERSION\tLAST TAG\tCHANGED SINCE")
			for _, s := range states {
				last, changed := "none", "-"
				if s.Last != "" {
					last, changed = s.Last, map[bool]string{true: "yes", false: "no"}[s.Changed]
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Dir, s.Version, last, changed)
			}
			return w.Flush()
		},
	}
}

func verify() *cobra.Command {
	var tag string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that versions.yaml, go.mod files, go.work, the chart, changelogs, .goreleaser.yaml and tags agree",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tree, g, err := open()
			if err != nil {
				return err
			}
			problems := []error{release.Verify(cmd.Context(), tree, g)}
			if tag != "" {
				problems = append(problems, verifyTag(tree, tag))
			}
			return errors.Join(problems...)
		},
	}
	cmd.Flags().StringVar(&tag, "tag", "", "check too that this tag is of the version of versions.yaml, and that its changelog is dated")
	return cmd
}

// verifyTag checks a tag that is there against the tree.
func verifyTag(tree *repo.Tree, name string) error {
	trains, err := release.Trains(tree)
	if err != nil {
		return err
	}
	var tags []string
	for _, t := range trains {
		if t.Tag() == name {
			_, err := release.Notes(tree, t)
			return err
		}
		tags = append(tags, t.Tag())
	}
	return fmt.Errorf("tag %q: versions.yaml has only %q", name, tags)
}

func notes() *cobra.Command {
	return &cobra.Command{
		Use:   "notes <module>",
		Short: "Print what the changelog says of the version of versions.yaml",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tree, _, err := open()
			if err != nil {
				return err
			}
			t, err := release.Find(tree, args[0])
			if err != nil {
				return err
			}
			text, err := release.Notes(tree, t)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), text)
			return nil
		},
	}
}

// today is the date that a changelog gets unless one is given.
func today() string { return time.Now().UTC().Format(time.DateOnly) }
